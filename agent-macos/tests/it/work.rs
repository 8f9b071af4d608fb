use std::time::Duration;

use fencepost_protocol::{AgentFrame, Directive, GatewayFrame};
use serde_json::json;

use crate::agent::{Agent, eventually};
use crate::gateway::{DEVICE_TOKEN, Gateway, sha256};
use crate::session::{content, huge, offer, small, token};

const STOPPED_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_goes_from_offer_to_commit_and_leaves_nothing_behind() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 2).await;
    let agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    let hello = session.welcome_empty().await;
    assert!(hello.held.is_empty() && hello.slots == 1);
    assert!(
        hello
            .capabilities
            .iter()
            .any(|word| word.0 == "encode.h264"),
        "{hello:?}"
    );
    let offer = offer(source, small());
    let lease = offer.lease();
    session.lease(offer).await;
    let record = agent.lease_file();
    assert_eq!(record["commit_token"], token(7).expose());
    let commit = session.until("commit").await;
    let AgentFrame::Commit {
        lease: said,
        output,
        ..
    } = &commit.frame
    else {
        unreachable!()
    };
    let uploaded = gateway.objects.get("/out").unwrap();
    assert_eq!((*said, &output.sha256), (lease, &sha256(&uploaded)));
    assert_eq!(output.size_bytes, uploaded.len() as u64);
    assert_eq!(agent.lease_file()["pending"]["output"], json!(output));
    session
        .answer(&commit, GatewayFrame::CommitOk { replayed: false })
        .await;
    session.until("pull").await;
    agent.is_idle(STOPPED_WITHIN).await;
    eventually("the lease file is gone", || {
        agent.listing("leases").is_empty()
    })
    .await;
    eventually("status is in step", || {
        let status = agent.status();
        status["running"] == true && status["status"]["held"] == json!([])
    })
    .await;
    for secret in [DEVICE_TOKEN.to_owned(), token(7).expose()] {
        assert!(!agent.log().contains(&secret));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_directive_ends_the_encoder_within_two_seconds_and_is_confirmed() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    let offer = offer(source, huge());
    let lease = offer.lease();
    session.lease(offer).await;
    session.until_encoding().await;
    assert!(!agent.children().is_empty());
    session.directive = Directive::Stop;
    session.until("progress").await;
    agent.is_idle(STOPPED_WITHIN).await;
    let stopped = session.until("stopped").await;
    assert_eq!(stopped.frame.lease(), Some(lease));
    session.until("pull").await;
    assert!(gateway.objects.get("/out").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_not_the_promised_one_fails_the_attempt() {
    let mut gateway = Gateway::start().await;
    gateway.objects.put("/in", b"something else".to_vec());
    let _agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    for (size, hint) in [(14, "SHA-256"), (13, "longer"), (15, "shorter")] {
        session.lease(offer(("00".repeat(32), size), small())).await;
        let fail = session.until("fail").await;
        assert_eq!(content(&fail)["failure_code"], "download_failed");
        let message = content(&fail)["message"].to_string();
        assert!(message.contains(hint), "{message}");
        let done = GatewayFrame::Done {
            replayed: false,
            lease_remaining_ms: None,
        };
        session.answer(&fail, done).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_checked_again_and_a_file_that_is_no_video_is_invalid_input() {
    let mut gateway = Gateway::start().await;
    gateway.objects.put("/in", b"something else".to_vec());
    let source = (sha256(b"something else"), 14);
    let _agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    for params in [json!({"codec": "h264", "height": 3}), small()] {
        session.lease(offer(source.clone(), params)).await;
        let fail = session.until("fail").await;
        assert_eq!(content(&fail)["failure_code"], "input_invalid");
        let done = GatewayFrame::Done {
            replayed: false,
            lease_remaining_ms: None,
        };
        session.answer(&fail, done).await;
    }
}
