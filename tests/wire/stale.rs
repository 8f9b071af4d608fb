//! Attempts that were lost and do not know it.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::EventId;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{
    accept, artifact, assert_won, commit, event, fail, grant, progress, release, stopped,
};
use fencepost_tests::gateway::TTL;
use reqwest::StatusCode;

use crate::refused;

#[tokio::test]
async fn nothing_that_a_lost_attempt_says_or_sends_changes_anything() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut slow = site.device(&gateway, "slow").await.connect(&gateway).await;
    let mut quick = site.device(&gateway, "quick").await.connect(&gateway).await;
    let (lost, lost_output) = slow.lease_and_upload(&gateway, b"of the first").await;
    site.pass(TTL).await;
    site.becomes(&job, "queued: lost").await;

    let won = quick.lease_in(Phase::Running).await;
    assert_eq!(won.attempt_number, 2);
    assert_ne!(won.attempt_id, lost.attempt_id);
    assert_ne!(won.output.object_key, lost.output.object_key);
    assert!(won.lease_epoch > lost.lease_epoch);
    assert!(
        won.commit_token != lost.commit_token,
        "a secret was given twice"
    );
    // Neither the first one's object nor anything else is the output yet.
    let not_ready = (StatusCode::CONFLICT, "not_ready".to_owned());
    assert_eq!(buyer.output_link(&job).await, Err(not_ready));

    let mut mixed = lost.clone();
    mixed.commit_token = won.commit_token.clone();
    let last_words = || {
        [
            (accept(&lost), Code::LeaseConflict),
            (progress(&lost, Phase::Uploading), Code::LeaseConflict),
            (commit(&lost, &lost_output), Code::CommitConflict),
            (commit(&mixed, &lost_output), Code::CommitConflict),
            (fail(&lost, "runner_failed"), Code::CommitConflict),
            (release(&lost), Code::CommitConflict),
            (event(&lost, EventId::new(), 0), Code::RunLeaseConflict),
            (event(&mixed, EventId::new(), 0), Code::RunLeaseConflict),
            (
                artifact(&lost, "a.log", &lost.output.object_key, b"a"),
                Code::RunLeaseConflict,
            ),
            (grant(&lost, "a.log", "put"), Code::LeaseConflict),
        ]
    };
    let before = site.rows().await;
    for (frame, code) in last_words() {
        assert_eq!(refused(&slow.ask(frame).await), code);
    }
    slow.ask(stopped(&lost)).await;
    let late = gateway.put(&lost.output.url, b"late bytes").await;
    assert_eq!(late.status(), StatusCode::CONFLICT);
    assert_eq!(site.rows().await, before);

    quick.ask(progress(&won, Phase::Uploading)).await;
    assert!(
        gateway
            .put(&won.output.url, b"of the second")
            .await
            .status()
            .is_success()
    );
    let output = fencepost_tests::agent_frames::declared(&won, b"of the second");
    let answer = quick.ask(commit(&won, &output)).await;
    assert_won(&answer);

    let before = site.rows().await;
    for (frame, code) in last_words() {
        assert_eq!(refused(&slow.ask(frame).await), code);
    }
    slow.ask(stopped(&lost)).await;
    assert_eq!(site.rows().await, before);
    assert_eq!(buyer.download(&job).await, b"of the second");
    assert_eq!(buyer.job(&job).await["charged_attempts"], 1);
}

#[tokio::test]
async fn the_same_device_may_win_what_it_lost_but_only_under_its_new_lease() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (first, first_output) = session.lease_and_upload(&gateway, b"first").await;
    site.clock.advance(TTL).await;
    site.becomes(&job, "queued: lost").await;
    site.clock.advance(Duration::from_mins(1)).await;
    let (second, second_output) = session.lease_and_upload(&gateway, b"second").await;
    let answer = session.ask(commit(&first, &first_output)).await;
    assert_eq!(refused(&answer), Code::CommitConflict);
    let answer = session.ask(commit(&second, &first_output)).await;
    assert!(
        matches!(answer, GatewayFrame::Rejected { .. }),
        "{answer:?}"
    );
    let answer = session.ask(commit(&second, &second_output)).await;
    assert_won(&answer);
    assert_eq!(buyer.download(&job).await, b"second");
}
