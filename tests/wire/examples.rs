//! The examples of docs/examples, run as buyers would run them: real gateway, real agent, and a
//! connection that is cut while they wait.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use fencepost_tests::buyer::film;
use fencepost_tests::gateway::hex_sha256;
use fencepost_tests::processes::Process;
use fencepost_tests::stand_ins::HeldFfmpeg;
use fencepost_tests::wait::{until, until_some};
use fencepost_tests::{Proxy, Site};

fn root() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("it is in the workspace").to_owned()
}

/// What `.ci/prepare-examples` has made; without it this says so, and in CI it is an error.
fn prepared(what: &str) -> Option<PathBuf> {
    let place = root().join("target/examples").join(what);
    if place.exists() {
        return Some(place);
    }
    let why = format!("there is no {}: run .ci/prepare-examples", place.display());
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("not run: {why}");
    None
}

/// Runs an example through a connection that is cut while its job runs, and looks at what it fetched.
async fn works(mut example: Command) {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let proxy = Proxy::to(gateway.port()).await;
    let held = HeldFfmpeg::at_work(site.folder.path()).await;
    let agent = site.agent(&gateway.url, "mac").await;
    let mut agent = agent.with(&["--ffmpeg", held.path()]);
    agent.start();
    let (source, result) = (
        site.folder.path().join("film.mp4"),
        site.folder.path().join("small.mp4"),
    );
    std::fs::write(&source, film(2, 96, 64).await).expect("a film");
    example
        .args([&source, &result])
        .env(
            "FENCEPOST_API",
            format!("http://127.0.0.1:{}", proxy.port()),
        )
        .env("FENCEPOST_KEY", &site.api_key)
        .stdin(Stdio::null());
    let mut running = Process::start(&mut example, &site.folder.path().join("example.log"));
    let buyer = site.buyer(&gateway);
    let job = until_some("a job that runs", || async {
        let (_, jobs) = buyer.get("/v1/jobs").await;
        let job = &jobs["jobs"][0];
        (job["phase"] == "running").then(|| job["id"].as_str().expect("a text").to_owned())
    })
    .await;
    until("the phase to be told", || async {
        running.log().contains("running")
    })
    .await;
    proxy.cut();
    held.let_go();
    let status = running.wait().await;
    assert!(status.success(), "{status}:\n{}", running.log());
    let job = buyer.job(&job).await;
    let bytes = std::fs::read(&result).expect("the result");
    assert_eq!(job["output"]["sha256"], hex_sha256(&bytes));
    assert!(running.log().contains("job.succeeded") || running.log().contains("succeeded"));
    assert_eq!(
        buyer.get("/v1/jobs").await.1["jobs"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert!(!result.with_extension("mp4.part").exists());
}

#[tokio::test]
async fn the_shell_example_works() {
    works(Command::new(root().join("docs/examples/submit.sh"))).await;
}

#[tokio::test]
async fn the_python_example_works() {
    let Some(python) = prepared("venv/bin/python") else {
        return;
    };
    let mut example = Command::new(python);
    example.arg(root().join("docs/examples/submit.py"));
    works(example).await;
}

#[tokio::test]
async fn the_typescript_example_works() {
    let Some(script) = prepared("ts/submit.js") else {
        return;
    };
    let mut example = Command::new("node");
    example.arg(script);
    works(example).await;
}

/// Starts an example that receives webhooks, and has the end of a job told to it.
async fn hears(mut example: Command) {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let (_, secret) = buyer.endpoint(&format!("http://127.0.0.1:{port}/")).await;
    example
        .arg(port.to_string())
        .env("WEBHOOK_SECRET", secret)
        .stdin(Stdio::null());
    let receiver = Process::start(&mut example, &site.folder.path().join("receiver.log"));
    until("it listens", || async {
        receiver.log().contains("listening")
    })
    .await;
    let forged = gateway.client.post(format!("http://127.0.0.1:{port}/"));
    let forged = forged
        .header("webhook-id", "x")
        .header("webhook-timestamp", "1");
    let forged = forged
        .header("webhook-signature", "v1,AAAA")
        .body("{}")
        .send()
        .await;
    assert_eq!(forged.expect("it answers").status(), 400);
    let job = buyer.submit_and_cancel().await;
    until("it is told", || async {
        receiver.log().contains(&format!("job.cancelled {job}"))
    })
    .await;
}

#[tokio::test]
async fn the_python_receiver_believes_what_is_signed_and_nothing_else() {
    let Some(python) = prepared("venv/bin/python") else {
        return;
    };
    let mut example = Command::new(python);
    example.arg(root().join("docs/examples/receive_webhook.py"));
    hears(example).await;
}

#[tokio::test]
async fn the_typescript_receiver_believes_what_is_signed_and_nothing_else() {
    let Some(script) = prepared("ts/receive_webhook.js") else {
        return;
    };
    let mut example = Command::new("node");
    example.arg(script);
    hears(example).await;
}
