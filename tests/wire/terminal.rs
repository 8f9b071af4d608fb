//! `fencepost job …`, as buyers and their scripts use it.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::EventId;
use fencepost_tests::agent_frames::{commit, declared, event, fail};
use fencepost_tests::buyer::{clip, film};
use fencepost_tests::gateway::hex_sha256;
use fencepost_tests::stage::start;
use fencepost_tests::terminal::{Terminal, complaint, lines};
use fencepost_tests::wait::until;
use fencepost_tests::{Line, Proxy, Site, TestGateway};
use rustix::process::Signal;
use serde_json::{Value, json};

fn at_port(site: &Site, port: u16) -> Terminal {
    Terminal::new(&format!("http://127.0.0.1:{port}"), &site.api_key)
}

fn terminal(site: &Site, gateway: &TestGateway) -> Terminal {
    Terminal::new(&gateway.url, &site.api_key)
}

fn path(site: &Site, name: &str) -> String {
    site.folder
        .path()
        .join(name)
        .to_str()
        .expect("a plain path")
        .to_owned()
}

/// A job that has succeeded with these bytes.
async fn succeeded(site: &Site, gateway: &TestGateway, bytes: &[u8]) -> String {
    let job = site.buyer(gateway).submit_noop().await;
    let mut mac = site.device(gateway, "mac").await.connect(gateway).await;
    let offer = mac.lease_in(Phase::Uploading).await;
    gateway.put(&offer.output.url, bytes).await;
    mac.ask(commit(&offer, &declared(&offer, bytes))).await;
    job
}

fn numbers(lines: &[Value]) -> Vec<i64> {
    lines
        .iter()
        .filter_map(|line| line["seq"].as_i64())
        .collect()
}

#[tokio::test]
async fn a_film_goes_in_and_its_transcode_comes_out() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let (film_file, result) = (path(&site, "film.mp4"), path(&site, "small.mp4"));
    std::fs::write(&film_file, film(2, 96, 64).await).unwrap();
    let input = format!("source={film_file}");
    let words = [
        "submit",
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
        "--param",
        "height=32",
        "--metadata",
        "order=42",
        "--input",
        &input,
        "--output",
        &result,
    ];
    let output = terminal.run(&words).await;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let sha256 = hex_sha256(&std::fs::read(&result).unwrap());
    assert!(
        said.contains("succeeded") && said.contains(&sha256),
        "{said}"
    );
    let told = complaint(&output);
    assert!(
        told.contains("idempotency key") && told.contains("running"),
        "{told}"
    );
    // Nothing is drawn where nobody looks.
    assert!(
        !told.contains('\u{1b}') && !said.contains('\u{1b}'),
        "{told}{said}"
    );
    let jobs = terminal.json(&["list"], 0).await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["output"]["sha256"], sha256);
    assert_eq!(jobs[0]["metadata"], json!({ "order": "42" }));
    let id = jobs[0]["id"].as_str().unwrap();
    let name = jobs[0]["output"]["filename"].as_str().unwrap();
    assert_eq!(name, format!("{id}.mp4"));
    // The file is not overwritten by mistake, also not after everything else was done.
    for words in [&["download", id, "--output", &result][..], &words] {
        let output = terminal.run(words).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(complaint(&output).contains("--force"), "{output:?}");
    }
    let told = terminal
        .json(&["download", id, "--output", &result, "--force"], 0)
        .await;
    assert_eq!(told[0]["sha256"], sha256);
    assert_eq!(terminal.json(&["list"], 0).await.len(), 1);
}

#[tokio::test]
async fn a_watch_goes_on_through_cut_connections_and_says_everything_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let proxy = Proxy::to(gateway.port()).await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    let log = site.folder.path().join("watch.log");
    let mut watch = at_port(&site, proxy.port()).start(&["watch", &job, "--json"], &log);
    for seq in 0..3 {
        mac.ask(event(&offer, EventId::new(), seq)).await;
        until("the event to be told", || async {
            watch.log().contains(&format!("\"seq\":{}", seq + 1))
        })
        .await;
        proxy.cut();
    }
    mac.ask(fail(&offer, "runner_failed")).await;
    let status = watch.wait().await;
    assert_eq!(status.code(), Some(3), "{}", watch.log());
    let told = lines(watch.log().as_bytes());
    assert_eq!(numbers(&told), [1, 2, 3, 4]);
    let types: Vec<_> = told
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(types.last(), Some(&"job"));
    let error = &told.last().unwrap();
    let error = if error["error"].is_null() {
        &told[told.len() - 2]
    } else {
        error
    };
    assert_eq!(error["error"]["exit_code"], 3);
}

#[tokio::test]
async fn each_end_has_its_exit_code() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let buyer = site.buyer(&gateway);
    let cancelled = buyer.submit_noop().await;
    let told = terminal.json(&["cancel", &cancelled], 0).await;
    assert_eq!(
        (&told[0]["status"], &told[0]["changed"]),
        (&json!("cancelled"), &json!(true))
    );
    terminal.json(&["cancel", &cancelled], 0).await;
    terminal.json(&["watch", &cancelled], 4).await;
    terminal.json(&["download", &cancelled], 4).await;
    let waiting = buyer.submit_noop().await;
    let got = terminal.json(&["get", &waiting], 0).await;
    assert_eq!(got[0]["status"], "queued");
    // Not ready, not there, not understood.
    terminal.json(&["download", &waiting], 2).await;
    terminal
        .json(&["watch", "00000000-0000-0000-0000-000000000000"], 2)
        .await;
    terminal.json(&["watch", "x"], 2).await;
    let output = terminal
        .run(&["submit", "--service", "noop.v1", "--max-attempts", "99"])
        .await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = complaint(&output);
    assert!(
        told.contains("max_attempts: must be") && told.contains("request 01"),
        "{told}"
    );
    assert!(!told.contains(&site.api_key), "{told}");
    // Nobody there, nobody known, no key, no safe way to send it.
    let nobody = at_port(&site, 1);
    nobody.json(&["list", "--patience", "1ms"], 5).await;
    let stranger = Terminal::new(&gateway.url, "fp_live_nobody");
    stranger.json(&["list"], 2).await;
    Terminal::new(&gateway.url, "").json(&["list"], 2).await;
    let in_clear = Terminal::new("http://fencepost.example", &site.api_key);
    in_clear.json(&["list"], 2).await;
}

#[tokio::test]
async fn ctrl_c_leaves_the_job_or_cancels_it_if_asked_to() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let log = site.folder.path().join("submit.log");
    let mut waiting = terminal.start(&["submit", "--service", "noop.v1", "--wait"], &log);
    until("it waits", || async { waiting.log().contains("queued") }).await;
    waiting.signal(Signal::INT);
    let status = waiting.wait().await;
    assert_eq!(
        (status.code(), status.signal()),
        (Some(130), None),
        "{}",
        waiting.log()
    );
    let job = site.db.text("select id from jobs").await;
    assert!(
        waiting
            .log()
            .contains(&format!("fencepost job watch {job}")),
        "{}",
        waiting.log()
    );
    assert_eq!(site.statuses(&job).await, "queued: none");
    let log = site.folder.path().join("watch.log");
    let mut waiting = terminal.start(&["watch", &job, "--cancel-on-interrupt"], &log);
    until("it waits", || async { waiting.log().contains("queued") }).await;
    waiting.signal(Signal::INT);
    assert_eq!(waiting.wait().await.code(), Some(4), "{}", waiting.log());
    assert_eq!(site.statuses(&job).await, "cancelled: none");
}

#[tokio::test]
async fn an_order_whose_answer_is_lost_is_one_job() {
    let site = Site::new().await;
    let mut command = site.command(&[]);
    command.env("FENCEPOST_TEST_FAULT", "submit_job:committed=abort");
    let mut doomed = start(&mut command, &site.folder.path().join("doomed.log")).await;
    let line = Line::to(doomed.port()).await;
    let log = site.folder.path().join("submit.log");
    let words = ["submit", "--service", "noop.v1", "--json"];
    let mut submit = at_port(&site, line.port()).start(&words, &log);
    doomed.process.wait().await;
    let gateway = site.gateway().await;
    line.lead_to(gateway.port());
    assert!(submit.wait().await.success(), "{}", submit.log());
    let told = lines(submit.log().as_bytes());
    let jobs = site.db.texts("select id from jobs").await;
    assert_eq!(jobs, [told[0]["id"].as_str().unwrap()]);
}

#[tokio::test]
async fn an_upload_that_was_sent_before_is_named_by_its_id_and_the_order_by_its_key() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let film = path(&site, "film.mp4");
    std::fs::write(&film, clip().await).unwrap();
    let sent = terminal.json(&["upload", &film], 0).await;
    assert_eq!(sent[0]["sha256"], hex_sha256(clip().await));
    let input = format!("source=upload:{}", sent[0]["upload_id"].as_str().unwrap());
    let order = [
        "submit",
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
        "--input",
        &input,
        "--idempotency-key",
        "order-42",
    ];
    let first = terminal.json(&order, 0).await;
    let again = terminal.json(&order, 0).await;
    assert_eq!(first[0]["id"], again[0]["id"]);
    let mut other = order;
    other[4] = "codec=hevc";
    terminal.json(&other, 2).await;
    terminal
        .json(&["upload", &path(&site, "none.mp4")], 2)
        .await;
}

#[tokio::test]
async fn a_download_that_is_cut_goes_on_where_it_was() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let bytes: Vec<u8> = (0..1_900_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1])
        .collect();
    let job = succeeded(&site, &gateway, &bytes).await;
    let slow = Line::to(gateway.port()).await;
    let proxy = Proxy::to(slow.port()).await;
    slow.delay(Duration::from_millis(10));
    let (file, part) = (path(&site, "a.bin"), path(&site, "a.bin.part"));
    let log = site.folder.path().join("download.log");
    let words = ["download", &job, "--output", &file];
    let mut download = at_port(&site, proxy.port()).start(&words, &log);
    let size = |name: &str| std::fs::metadata(name).map_or(0, |metadata| metadata.len());
    until("some of it to be there", || async { size(&part) > 100_000 }).await;
    proxy.cut();
    assert!(download.wait().await.success(), "{}", download.log());
    assert!(download.log().contains("going on at"), "{}", download.log());
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert!(!std::fs::exists(&part).unwrap());
    // What another process left is used if it fits, and fetched anew if it does not.
    let terminal = terminal(&site, &gateway);
    for before in [&bytes[..1_000_000], b"something else", &bytes] {
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&part, before).unwrap();
        let output = terminal.run(&words).await;
        assert!(output.status.success(), "{output:?}");
        let is_anew = complaint(&output).contains("all of it again");
        assert_eq!(is_anew, before == b"something else", "{output:?}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[tokio::test]
async fn the_help_teaches() {
    let terminal = Terminal::new("http://127.0.0.1:1", "");
    let help = |words: &'static [&'static str]| terminal.run(words);
    let all = String::from_utf8(help(&["--help"]).await.stdout).unwrap();
    for word in [
        "submit",
        "watch",
        "download",
        "Exit codes",
        "FENCEPOST_KEY",
        "Examples:",
    ] {
        assert!(all.contains(word), "{word}: {all}");
    }
    let submit = String::from_utf8(help(&["submit", "--help"]).await.stdout).unwrap();
    for word in [
        "--input source=film.mp4",
        "--idempotency-key",
        "--cancel-on-interrupt",
    ] {
        assert!(submit.contains(word), "{word}: {submit}");
    }
}
