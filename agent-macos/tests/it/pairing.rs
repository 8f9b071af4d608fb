use std::os::unix::fs::PermissionsExt as _;

use crate::agent::{Agent, command};
use crate::gateway::{DEVICE_TOKEN, Gateway};

async fn pair(address: &str, code: &str) -> (tempfile::TempDir, std::process::Output) {
    let temp = tempfile::tempdir().unwrap();
    let (address, code) = (address.to_owned(), code.to_owned());
    tokio::task::spawn_blocking(move || {
        let folder = temp.path().to_str().unwrap().to_owned();
        let args = ["pair", "--gateway", &address, "--state-dir", &folder];
        let output = command(&args, Some(&code));
        (temp, output)
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_becomes_a_private_file_and_is_shown_nowhere() {
    let gateway = Gateway::start().await;
    let agent = Agent::paired(&gateway).await;
    let file = agent.path("device.json");
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains(DEVICE_TOKEN)
    );
    assert_eq!(agent.status()["paired"], true);
    assert_eq!(agent.status()["running"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_refusal_is_shown_and_nothing_is_written() {
    let gateway = Gateway::start().await;
    let (state, output) = pair(&gateway.address, "fp_pair_spent").await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("the code was used already"),
        "{said}"
    );
    assert!(!said.contains("fp_pair_spent"));
    assert!(!state.path().join("device.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_never_sent_in_clear_to_another_host() {
    let (_state, output) = pair("http://192.0.2.1:8080", "fp_pair_integration").await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("in clear"),
        "{said}"
    );
}
