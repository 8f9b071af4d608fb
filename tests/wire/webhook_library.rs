//! The published library for Python believes what we sign: what a buyer installs, unchanged.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use fencepost_tests::{Receiver, Site};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The library, as it is pinned.
const LIBRARY: &str = "standardwebhooks==1.1.0";
const SCRIPT: &str = include_str!("verify_webhook.py");

/// A Python that has the library, in the build folder; made the first time. `None`, with a word why,
/// where there is no Python or no package index; on a build server that is a failure.
async fn python() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test knows where it is");
    let target = test
        .ancestors()
        .nth(3)
        .expect("it is in target/<profile>/deps");
    let folder = target.join("tmp").join(LIBRARY.replace("==", "-"));
    let program = folder.join("bin").join("python");
    let knows = ["-c", "import standardwebhooks"];
    if succeeds(Command::new(&program).args(knows)).await {
        return Some(program);
    }
    let made = succeeds(Command::new("python3").args(["-m", "venv"]).arg(&folder)).await
        && succeeds(Command::new(&program).args(["-m", "pip", "install", "-q", LIBRARY])).await;
    assert!(
        made || std::env::var_os("CI").is_none(),
        "python3-venv and {LIBRARY} are needed: .ci/install-deps venv"
    );
    if !made {
        eprintln!("SKIPPED: there is no python3-venv, or {LIBRARY} cannot be had");
    }
    made.then_some(program)
}

async fn succeeds(command: &mut Command) -> bool {
    let command = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command.status().await.is_ok_and(|status| status.success())
}

/// What the library makes of a message; `None` if it does not believe it.
async fn verify(python: &Path, message: &Value) -> Option<Value> {
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("it has an input");
    input
        .write_all(message.to_string().as_bytes())
        .await
        .expect("it listens");
    drop(input);
    let output = child.wait_with_output().await.expect("it ends");
    let parsed = output
        .status
        .success()
        .then(|| serde_json::from_slice(&output.stdout));
    parsed.map(|parsed| parsed.expect("JSON"))
}

#[tokio::test]
async fn the_library_for_python_believes_our_signature_and_no_other() {
    let Some(python) = python().await else {
        return;
    };
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::good().await;
    let (endpoint, old) = buyer.endpoint(&receiver.url).await;
    let rotate = format!("/v1/webhook-endpoints/{endpoint}/rotate-secret");
    let (_, rotated) = buyer.post(&rotate, &json!({})).await;
    let job = buyer.submit_and_cancel().await;
    let heard = receiver.until_heard(1).await.remove(0);
    let mut headers = serde_json::Map::new();
    for (name, value) in &heard.headers {
        headers.insert(name.to_string(), json!(value.to_str().unwrap()));
    }
    let body = String::from_utf8(heard.body).unwrap();
    let message =
        |secret: &Value, body: &str| json!({ "secret": secret, "body": body, "headers": headers });
    for secret in [&json!(old), &rotated["secret"]] {
        let parsed = verify(&python, &message(secret, &body)).await;
        assert_eq!(parsed.expect("it is believed")["data"]["job_id"], job);
    }
    assert_eq!(
        verify(&python, &message(&json!(old), &format!("{body} "))).await,
        None
    );
    let foreign = format!("whsec_{}", "A".repeat(43) + "=");
    assert_eq!(
        verify(&python, &message(&json!(foreign), &body)).await,
        None
    );
}
