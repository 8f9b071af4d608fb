//! Orders with addresses in them: what is refused by name, what is one job, and what a worker is told.

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::agent_frames::grant;
use fencepost_tests::buyer::{answer, clip, text, transcode};
use fencepost_tests::file_host::{FileHost, Serve};
use fencepost_tests::gateway::{MAX_UPLOAD_BYTES, TO_THIS_MACHINE};
use fencepost_tests::terminal::{Terminal, complaint};
use fencepost_tests::{Site, TestGateway};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// Every spelling of a host within that there is, and some that only look like one outside.
const WITHIN: [&str; 32] = [
    "127.0.0.1",
    "127.1",
    "0",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "0x7f.1",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "１２７.0.0.1",
    "127。0。0。1",
    "localhost",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[2002:7f00:1::]",
    "[64:ff9b::7f00:1]",
    "[::127.0.0.1]",
    "[fe80::1]",
    "[fe81::1]",
    "[fd00::1]",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "me@8.8.8.8",
    "me:word@8.8.8.8",
    "8.8.8.8@127.0.0.1",
];

fn of(input: Value) -> Value {
    let mut order = transcode("");
    order["inputs"]["source"] = input;
    order
}

#[tokio::test]
async fn an_address_within_is_refused_by_its_name_in_every_spelling_and_is_not_repeated() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut urls: Vec<_> = WITHIN
        .iter()
        .flat_map(|host| {
            [
                format!("https://{host}/film.mp4?sig=s3cret"),
                format!("https://{host}:8443/film.mp4?sig=s3cret"),
            ]
        })
        .collect();
    urls.extend(
        [
            "http://8.8.8.8/film.mp4?sig=s3cret",
            "https://8.8.8.8/film.mp4?sig=s3cret#part",
            "https://8.8.8.8/film .mp4?sig=s3cret",
            "https:8.8.8.8/film.mp4?sig=s3cret",
            "HTTPS://8.8.8.8/film.mp4?sig=s3cret",
            "//8.8.8.8/film.mp4?sig=s3cret",
            "ftp://8.8.8.8/film.mp4?sig=s3cret",
            "file:///etc/passwd?sig=s3cret",
            "data:video/mp4,s3cret",
            "https://nobody.invalid/film.mp4?sig=s3cret",
            "s3cret",
            "",
        ]
        .map(str::to_owned),
    );
    for url in &urls {
        for path in ["/v1/jobs", "/v1/quotes"] {
            let (status, problem) = buyer.post(path, &of(json!({ "url": url }))).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{url}: {problem}");
            assert_eq!(problem["code"], "invalid_request", "{url}: {problem}");
            assert_eq!(problem["field"], "inputs.source.url", "{url}: {problem}");
            assert!(!problem.to_string().contains("s3cret"), "{url}: {problem}");
        }
    }
    assert_eq!(site.db.text("select count(*) from jobs").await, "0");
    assert!(!gateway.process.log().contains("s3cret"));
    // What is out in the world is taken; nobody fetches it here.
    let outside = of(json!({ "url": "https://8.8.8.8:8443/film.mp4?sig=s3cret" }));
    let job = buyer.submit(&outside).await;
    assert_eq!(
        buyer.job(&job).await["inputs"]["source"]["host"],
        "8.8.8.8:8443"
    );
    let (_, quote) = buyer.post("/v1/quotes", &outside).await;
    let needs = json!(["encode.h264", "input.url", "transcode.v1"]);
    assert_eq!(quote["needs"], needs, "{quote}");
}

#[tokio::test]
async fn what_is_wrong_with_an_input_is_said_by_the_name_of_its_field() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(clip().await).await;
    let url = "https://8.8.8.8/film.mp4";
    let long = format!("{url}?{}", "x".repeat(4_000));
    let sha256 = "0a".repeat(32);
    for (input, field) in [
        (json!({}), "upload_id"),
        (json!({ "url": null, "upload_id": null }), "upload_id"),
        (json!({ "url": url, "upload_id": upload }), "url"),
        (json!({ "upload_id": upload, "sha256": sha256 }), "sha256"),
        (json!({ "url": long }), "url"),
        (json!({ "url": url, "sha256": "0A".repeat(32) }), "sha256"),
        (json!({ "url": url, "sha256": "short" }), "sha256"),
        (json!({ "url": url, "size_bytes": 0 }), "size_bytes"),
        (
            json!({ "url": url, "size_bytes": MAX_UPLOAD_BYTES + 1 }),
            "size_bytes",
        ),
        (json!({ "url": url, "headers": {} }), "headers"),
    ] {
        let (status, problem) = buyer.post("/v1/jobs", &of(input.clone())).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{input}: {problem}");
        let field = format!("inputs.source.{field}");
        assert_eq!(problem["field"], field, "{input}: {problem}");
    }
}

#[tokio::test]
async fn the_same_order_is_the_same_job_also_when_its_name_leads_nowhere_meanwhile() {
    let site = Site::new().await;
    let lenient = site.gateway_with(&[TO_THIS_MACHINE]).await;
    let strict = site.gateway().await;
    let post = async |gateway: &TestGateway, key: &str, url: &str| {
        let buyer = site.buyer(gateway);
        let request = buyer.request(Method::POST, "/v1/jobs");
        let request = request.header("Idempotency-Key", key);
        let request = request.json(&of(json!({ "url": url })));
        answer(request.send().await.expect("it answers")).await
    };
    let url = "http://127.0.0.1:9/film.mp4?sig=1";
    let (status, first) = post(&lenient, "one", url).await;
    assert_eq!(status, StatusCode::CREATED, "{first}");
    // Elsewhere the address would not be taken: as if its name led somewhere else by now.
    let (status, again) = post(&strict, "one", url).await;
    assert_eq!(
        (status, &again["id"]),
        (StatusCode::OK, &first["id"]),
        "{again}"
    );
    let (status, problem) = post(&strict, "two", url).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
    // The signature is a part of what is asked for.
    let (status, other) = post(&strict, "one", "http://127.0.0.1:9/film.mp4?sig=2").await;
    assert_eq!(other["code"], "idempotency_key_reused", "{status} {other}");
    assert_eq!(site.db.text("select count(*) from jobs").await, "1");
}

#[tokio::test]
async fn a_worker_that_fetches_from_addresses_is_told_the_address_and_gets_no_link_to_it() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let url = "https://8.8.8.8/film.mp4?sig=s3cret";
    let job = buyer
        .submit(&of(json!({ "url": url, "size_bytes": 7 })))
        .await;
    let mut device = site.device(&gateway, "mac").await;
    device.words.push("input.url".to_owned());
    let mut mac = device.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Downloading).await;
    assert_eq!(offer.job_id.to_string(), job);
    let input = &offer.inputs[0];
    assert_eq!((input.name.as_str(), input.url.as_str()), ("source", url));
    assert_eq!((input.size_bytes, &input.sha256), (Some(7), &None));
    assert_eq!(input.max_bytes, Some(MAX_UPLOAD_BYTES as u64));
    assert!(!format!("{offer:?}").contains("s3cret"));
    let answer = mac.ask(grant(&offer, "source", "get")).await;
    let GatewayFrame::Rejected { code, message, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(code, Code::InvalidRequest);
    let message = message.expect("it is explained");
    assert!(message.contains("the buyer's host"), "{message}");
}

#[tokio::test]
async fn the_terminal_orders_by_address_without_showing_it() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[TO_THIS_MACHINE]).await;
    let terminal = Terminal::new(&gateway.url, &site.api_key);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let host = FileHost::start(clip().await, &[Serve::File]).await;
    let address = site.folder.path().join("address.txt");
    std::fs::write(&address, host.url("s3cret")).expect("a file");
    let result = site.folder.path().join("small.mp4");
    let input = format!("source=url-in:{}", address.display());
    let order = [
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
        "--input",
    ];
    let words = [&["submit"], &order[..], &[&input, "--output"]].concat();
    let output = result.to_str().expect("a plain path");
    let output = terminal.run(&[&words[..], &[output]].concat()).await;
    assert!(output.status.success(), "{output:?}");
    assert!(result.exists());
    let said = format!(
        "{}{}",
        complaint(&output),
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(!said.contains("s3cret"), "{said}");
    let jobs = terminal.json(&["list"], 0).await;
    let shown = terminal.says(&["job", "get", &text(&jobs[0]["id"])]).await;
    let at = format!("source=an address at 127.0.0.1:{}", host.port());
    assert!(shown.contains(&at) && !shown.contains("s3cret"), "{shown}");
    // Straight on the command line it works too, and what is wrong is said before anything is ordered.
    let input = format!("source={}", host.url("s3cret"));
    terminal
        .json(&[&["quote"], &order[..], &[&input]].concat(), 0)
        .await;
    let words = [&["submit"], &order[..], &["source=https://10.0.0.1/x"]].concat();
    let output = terminal.run(&words).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        complaint(&output).contains("inputs.source.url"),
        "{output:?}"
    );
    assert_eq!(site.db.text("select count(*) from jobs").await, "1");
}

#[tokio::test]
async fn the_terminal_reads_an_address_from_standard_input_and_refuses_other_schemes_by_name() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[TO_THIS_MACHINE]).await;
    let terminal = Terminal::new(&gateway.url, &site.api_key);
    let order = "submit --service transcode.v1 --param codec=h264 --input";
    let order: Vec<_> = order.split(' ').collect();
    for scheme in ["ftp", "S3"] {
        let input = format!("source={scheme}://files.example/film.mp4?sig=s3cret");
        let output = terminal
            .run(&[&order[..], &[input.as_str()]].concat())
            .await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = complaint(&output);
        let named = format!("{}://", scheme.to_lowercase());
        assert!(said.contains(&named) && said.contains("https://"), "{said}");
        assert!(
            !said.contains("s3cret") && !said.contains("film.mp4"),
            "{said}"
        );
    }
    let file = site.folder.path().join("address.txt");
    for (written, code, says) in [
        ("", 2, "standard input is empty"),
        (
            "http://127.0.0.1:9/s3cret\nhttp://127.0.0.1:9/",
            2,
            "has several lines",
        ),
        ("HTTP://127.0.0.1:9/film.mp4?sig=s3cret\n", 0, ""),
    ] {
        std::fs::write(&file, written).expect("a file");
        let words = [&["job"], &order[..], &["source=url-in:-"]].concat();
        let mut command = terminal.command(&words);
        command.stdin(std::fs::File::open(&file).expect("it is there"));
        let ended = tokio::task::spawn_blocking(move || command.output());
        let output = ended.await.expect("it ends").expect("it starts");
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(says) && !said.contains("s3cret"), "{said}");
    }
    let host = "select inputs -> 0 ->> 'host' from jobs";
    assert_eq!(site.db.text(host).await, "127.0.0.1:9");
}
