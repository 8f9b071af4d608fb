//! An agent's `fail` over the wire: it reports, the control plane decides.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::failure::FailureCode;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{fail, progress, release};
use fencepost_tests::gateway::{CREDIT, HELD};
use fencepost_tests::wait::until;
use serde_json::json;

use crate::refused;

#[tokio::test]
async fn each_code_is_tried_again_or_not_as_the_table_says() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let unknown = ["please_try_me_again", "", "UPLOAD_FAILED"];
    let known = FailureCode::ALL.iter().map(|code| code.as_str());
    for word in known.chain(unknown) {
        // Unknown words, and what is said of jobs alone, are an internal error from an agent.
        let code = FailureCode::parse(word)
            .filter(|code| !code.is_job_only())
            .unwrap_or(FailureCode::InternalError);
        // A device each, so that none is held back for failing too often.
        let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
        let job = buyer.submit_noop().await;
        let offer = session.lease_in(Phase::Running).await;
        assert_eq!(offer.job_id.to_string(), job);
        let done = session.ask(fail(&offer, word)).await;
        assert!(
            matches!(
                done,
                GatewayFrame::Done {
                    replayed: false,
                    ..
                }
            ),
            "{word}: {done:?}"
        );
        let expected = match (code, code.is_retryable()) {
            (FailureCode::NoCapacity, _) => "queued: lost",
            (_, true) => "queued: failed",
            (_, false) => "failed: failed",
        };
        assert_eq!(site.statuses(&job).await, expected, "{word}");
        let seen = buyer.job(&job).await;
        let charged = i32::from(code.is_retryable() && code != FailureCode::NoCapacity);
        assert_eq!(seen["charged_attempts"], charged, "{word}");
        let attempts = buyer.attempts(&job).await;
        assert_eq!(attempts[0]["failure"]["code"], code.as_str());
        let (_, held) = buyer.balance().await;
        if code.is_retryable() {
            assert_eq!(held, HELD, "{word}");
            buyer.cancel(&job).await;
        }
    }
    assert_eq!(buyer.balance().await, (CREDIT, 0));
}

#[tokio::test]
async fn the_last_charged_attempt_fails_the_job() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let order = json!({ "service": "noop.v1", "max_attempts": 2 });
    let job = buyer.submit(&order).await;
    for expected in ["queued: failed", "failed: failed, failed"] {
        let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
        let offer = session.lease_in(Phase::Running).await;
        session.ask(fail(&offer, "upload_failed")).await;
        assert_eq!(site.statuses(&job).await, expected);
        site.clock.advance(Duration::from_mins(1)).await;
        until("the delay to be over", || async {
            buyer.job(&job).await["waiting"].is_null()
        })
        .await;
    }
    assert_eq!(buyer.job(&job).await["failure"]["code"], "upload_failed");
    assert_eq!(buyer.balance().await, (CREDIT, 0));
}

#[tokio::test]
async fn after_the_admission_deadline_nothing_is_tried_again() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let order = json!({ "service": "noop.v1", "deadline_seconds": 30 });
    let job = buyer.submit(&order).await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    for _ in 0..6 {
        site.clock.advance(Duration::from_secs(5)).await;
        let answer = session.ask(progress(&offer, Phase::Running)).await;
        assert!(
            matches!(answer, GatewayFrame::ProgressOk { .. }),
            "{answer:?}"
        );
    }
    session.ask(fail(&offer, "upload_failed")).await;
    assert_eq!(site.statuses(&job).await, "failed: failed");
    assert_eq!(
        buyer.job(&job).await["failure"]["code"],
        "deadline_exceeded"
    );
}

#[tokio::test]
async fn a_fail_that_does_not_fit_is_answered_and_changes_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    let before = site.rows().await;
    let mut wrong_token = offer.clone();
    wrong_token.commit_token = CommitToken::from_entropy([1; TOKEN_BYTES]);
    let mut wrong_epoch = offer.clone();
    wrong_epoch.lease_epoch = 2;
    for wrong in [&wrong_token, &wrong_epoch] {
        for frame in [fail(wrong, "upload_failed"), release(wrong)] {
            assert_eq!(refused(&session.ask(frame).await), Code::CommitConflict);
        }
    }
    for frame in [fail(&offer, "upload_failed"), release(&offer)] {
        assert_eq!(refused(&other.ask(frame).await), Code::CommitConflict);
    }
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn a_repeated_fail_gets_the_stored_answer_and_another_one_a_conflict() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    session.ask(fail(&offer, "runner_failed")).await;
    let before = site.rows().await;
    let again = session.ask(fail(&offer, "runner_failed")).await;
    assert!(
        matches!(again, GatewayFrame::Done { replayed: true, .. }),
        "{again:?}"
    );
    for frame in [fail(&offer, "upload_failed"), release(&offer)] {
        assert_eq!(refused(&session.ask(frame).await), Code::CommitConflict);
    }
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn odd_text_of_an_agent_costs_a_character_and_never_the_message() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    let request = "019adf00-0000-7000-8000-000000000002";
    let token = offer.commit_token.expose();
    let frame = format!(
        r#"{{"type":"fail","request_id":"{request}","job_id":"{}","attempt_id":"{}",
            "lease_epoch":1,"commit_token":"{token}","failure_code":"runner_failed",
            "message":"a\u0000b\ud800c\u001b[31md{}"}}"#,
        offer.job_id,
        offer.attempt_id,
        "x".repeat(100_000)
    );
    session.say_text(frame).await;
    let answer = session.answer(request.parse().unwrap()).await.frame;
    assert!(matches!(answer, GatewayFrame::Done { .. }), "{answer:?}");
    let seen = buyer.job(&job).await;
    let message = seen["failure"]["message"].as_str().unwrap();
    assert!(
        message.starts_with('a') && message.len() <= 2_100,
        "{message}"
    );
    assert!(!message.contains(['\0', '\u{1b}']), "{message}");
}
