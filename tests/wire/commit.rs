//! Commits over the wire.

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::ids::JobId;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{accept, assert_won, commit, declared, progress};
use fencepost_tests::buyer::clip;
use fencepost_tests::gateway::TTL;
use reqwest::StatusCode;

use crate::refused;

#[tokio::test]
async fn a_good_output_is_published_and_paid_for() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_transcode().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, clip().await).await;
    assert_eq!((offer.attempt_number, offer.lease_epoch), (1, 1));
    let answer = session.ask(commit(&offer, &output)).await;
    assert!(
        matches!(answer, GatewayFrame::CommitOk { replayed: false }),
        "{answer:?}"
    );
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(buyer.download(&job).await, clip().await);
    let money = &buyer.job(&job).await["money"];
    assert_eq!(money["captured_micros"], 1_500);
    assert_eq!(money["released_micros"], 4_500);
}

#[tokio::test]
async fn a_commit_that_differs_in_any_identity_is_refused_and_changes_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    let before = site.rows().await;

    let mut wrong_token = offer.clone();
    wrong_token.commit_token = CommitToken::from_entropy([1; TOKEN_BYTES]);
    let (mut newer, mut older, mut other_job) = (offer.clone(), offer.clone(), offer.clone());
    newer.lease_epoch += 1;
    older.lease_epoch -= 1;
    other_job.job_id = JobId::new();
    for wrong in [wrong_token, newer, older, other_job] {
        let answer = session.ask(commit(&wrong, &output)).await;
        assert_eq!(refused(&answer), Code::CommitConflict);
    }
    let answer = other.ask(commit(&offer, &output)).await;
    assert_eq!(refused(&answer), Code::CommitConflict);
    assert_eq!(site.rows().await, before);

    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
}

#[tokio::test]
async fn a_commit_before_the_upload_phase_is_refused() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease().await;
    let output = declared(&offer, b"bytes");
    for (phase, status) in [
        (None, "leased"),
        (Some(Phase::Downloading), "downloading"),
        (Some(Phase::Running), "running"),
    ] {
        if let Some(phase) = phase {
            session.ask(progress(&offer, phase)).await;
        }
        let answer = session.ask(commit(&offer, &output)).await;
        assert_eq!(refused(&answer), Code::CommitConflict);
        assert_eq!(site.statuses(&job).await, format!("active: {status}"));
    }
}

#[tokio::test]
async fn a_commit_of_an_expired_lease_is_refused_before_any_sweep_has_seen_it() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.sweep", "1h")]).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    site.clock.advance(TTL).await;
    let before = site.rows().await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert_eq!(refused(&answer), Code::CommitConflict);
    assert_eq!(site.rows().await, before);
    let not_ready = (StatusCode::CONFLICT, "not_ready".to_owned());
    assert_eq!(buyer.output_link(&job).await, Err(not_ready));
}

#[tokio::test]
async fn a_repeated_commit_gets_the_stored_result_and_writes_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    session.ask(commit(&offer, &output)).await;
    let before = site.rows().await;
    for _ in 0..2 {
        let answer = session.ask(commit(&offer, &output)).await;
        assert!(
            matches!(answer, GatewayFrame::CommitOk { replayed: true }),
            "{answer:?}"
        );
    }
    let mut other_content = output.clone();
    other_content.size_bytes += 1;
    let answer = session.ask(commit(&offer, &other_content)).await;
    assert_eq!(refused(&answer), Code::CommitConflict);
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn the_key_of_another_attempt_is_refused() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    buyer.submit_noop().await;
    site.other_buyer(&gateway).await.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (first, first_output) = session.lease_and_upload(&gateway, b"first").await;
    let (second, _) = session.lease_and_upload(&gateway, b"second").await;
    assert_ne!(first.output.object_key, second.output.object_key);
    let before = site.rows().await;
    let uploads_of_others = ["../../etc/passwd", "uploads/x", ""].map(str::to_owned);
    for key in [first_output.object_key]
        .into_iter()
        .chain(uploads_of_others)
    {
        let mut output = declared(&second, b"first");
        output.object_key = key;
        let answer = session.ask(commit(&second, &output)).await;
        assert!(
            matches!(answer, GatewayFrame::Rejected { .. }),
            "{answer:?}"
        );
    }
    assert_eq!(site.rows().await, before);
    assert!(first.attempt_id != second.attempt_id);
}

#[tokio::test]
async fn bytes_that_are_sent_again_after_the_commit_change_nothing_that_is_served() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"the right bytes").await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    let again = gateway.put(&offer.output.url, b"other bytes").await;
    assert_eq!(again.status(), StatusCode::CONFLICT);
    // And if the object were changed all the same, behind the gateway's back:
    let object = site.object(&offer.output.object_key);
    std::fs::remove_file(&object).ok();
    std::fs::write(&object, "other bytes").unwrap();
    assert_eq!(buyer.download(&job).await, b"the right bytes");
}

#[tokio::test]
async fn everything_said_in_one_breath_takes_effect_in_order() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.pull_offer().await;
    let stored = gateway.put(&offer.output.url, b"bytes").await;
    assert_eq!(stored.status(), StatusCode::CREATED);
    session.say(accept(&offer)).await;
    for phase in [Phase::Downloading, Phase::Running, Phase::Uploading] {
        for _ in 0..5 {
            session.say(progress(&offer, phase)).await;
        }
    }
    let answer = session
        .ask(commit(&offer, &declared(&offer, b"bytes")))
        .await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
}
