//! The buyer's cancel over the wire.

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Code, Directive, GatewayFrame, LeaseOffer};
use fencepost_tests::Site;
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{
    assert_won, commit, declared, fail, grant, progress, release, stopped,
};
use fencepost_tests::gateway::{ACCEPT, CREDIT, TTL};
use reqwest::StatusCode;
use serde_json::json;
use uuid::Uuid;

use crate::refused;

/// Waits for the cancel that is pushed, which names the lease.
async fn is_told(session: &mut Session, offer: &LeaseOffer) {
    let pushed = session
        .until(|heard| matches!(heard.frame, GatewayFrame::Cancel { .. }))
        .await;
    assert_eq!(
        (pushed.lease, pushed.request_id),
        (Some(offer.lease()), None)
    );
}

fn was_cancelled(frame: &GatewayFrame) -> bool {
    let code = Code::BuyerCancelled;
    matches!(frame, GatewayFrame::CommitRejected { code: found, .. } if *found == code)
}

#[tokio::test]
async fn a_queued_job_is_cancelled_at_once_and_again_without_effect() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    assert_eq!(buyer.cancel(&job).await, ("cancelled".to_owned(), true));
    assert_eq!(buyer.cancel(&job).await, ("cancelled".to_owned(), false));
    assert_eq!(buyer.balance().await, (CREDIT, 0));
    let stranger = site.other_buyer(&gateway).await;
    for (buyer, job) in [
        (&stranger, job.clone()),
        (&buyer, Uuid::now_v7().to_string()),
        (&buyer, "x".to_owned()),
    ] {
        let path = format!("/v1/jobs/{job}/cancel");
        let (status, problem) = buyer.post(&path, &json!({})).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::NOT_FOUND, &json!("not_found"))
        );
    }
}

#[tokio::test]
async fn a_job_that_has_ended_keeps_its_end() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    session.ask(commit(&offer, &output)).await;
    let before = site.rows().await;
    assert_eq!(buyer.cancel(&job).await, ("succeeded".to_owned(), false));
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn a_running_attempt_is_told_to_stop_and_its_word_that_it_did_ends_it() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    assert_eq!(buyer.cancel(&job).await, ("cancelling".to_owned(), true));
    assert_eq!(buyer.cancel(&job).await, ("cancelling".to_owned(), false));
    is_told(&mut session, &offer).await;
    let expiry = format!("select lease_expires_at from attempts where job_id = '{job}'");
    let before = site.db.text(&expiry).await;
    let answer = session.ask(progress(&offer, Phase::Running)).await;
    let GatewayFrame::ProgressOk {
        directive: Directive::Stop,
        reason: Some(reason),
        ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(reason, "buyer_cancelled");
    assert_eq!(site.db.text(&expiry).await, before, "the lease was renewed");
    let done = session.ask(stopped(&offer)).await;
    assert!(matches!(done, GatewayFrame::Done { .. }), "{done:?}");
    assert_eq!(site.statuses(&job).await, "cancelled: cancelled");
    assert_eq!(buyer.balance().await, (CREDIT, 0));
    // What it says later changes nothing.
    let before = site.rows().await;
    let done = session.ask(stopped(&offer)).await;
    assert!(matches!(done, GatewayFrame::Done { .. }), "{done:?}");
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn whatever_a_cancelled_agent_says_last_cancels_and_never_requeues() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    for ending in [
        |offer: &LeaseOffer| fail(offer, "upload_failed"),
        release,
        stopped,
    ] {
        let job = buyer.submit_noop().await;
        let offer = session.lease_in(Phase::Running).await;
        buyer.cancel(&job).await;
        let done = session.ask(ending(&offer)).await;
        assert!(matches!(done, GatewayFrame::Done { .. }), "{done:?}");
        assert_eq!(site.statuses(&job).await, "cancelled: cancelled");
        // A commit after that learns whose word it was.
        let answer = session
            .ask(commit(&offer, &declared(&offer, b"late")))
            .await;
        assert!(was_cancelled(&answer), "{answer:?}");
    }
    assert_eq!(buyer.balance().await, (CREDIT, 0));
}

#[tokio::test]
async fn the_commit_of_a_cancelled_job_is_rejected_before_its_slot_is_offered_again() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let buyer = site.buyer(&gateway);
    let device = site.device(&gateway, "mac").await.with_slots(1);
    let mut session = device.connect(&gateway).await;
    let job = buyer.submit_noop().await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    let next = buyer.submit_noop().await;
    // Standing, but there is no room for it yet.
    session.pull(1).await;
    buyer.cancel(&job).await;
    is_told(&mut session, &offer).await;
    session.say(commit(&offer, &output)).await;
    let answer = session.hear().await.frame;
    assert!(was_cancelled(&answer), "{answer:?}");
    assert_eq!(site.statuses(&job).await, "cancelled: cancelled");
    assert_eq!(session.offer().await.job_id.to_string(), next);

    // The same writer asks again and is told the same.
    let answer = session.ask(commit(&offer, &output)).await;
    assert!(was_cancelled(&answer), "{answer:?}");
}

#[tokio::test]
async fn the_answer_to_a_commit_comes_before_the_next_offer() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let buyer = site.buyer(&gateway);
    let (first, second) = (buyer.submit_noop().await, buyer.submit_noop().await);
    let device = site.device(&gateway, "mac").await.with_slots(1);
    let mut session = device.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    assert_eq!(offer.job_id.to_string(), first);
    session.pull(1).await;
    // Two more than fit: what counts is the slots that are free.
    session.pull(4).await;
    let progress = session.ask(progress(&offer, Phase::Uploading)).await;
    assert!(
        matches!(progress, GatewayFrame::ProgressOk { .. }),
        "{progress:?}"
    );
    session.say(commit(&offer, &output)).await;
    let answer = session.hear().await.frame;
    assert_won(&answer);
    assert_eq!(site.statuses(&first).await, "succeeded: succeeded");
    assert_eq!(session.offer().await.job_id.to_string(), second);
}

#[tokio::test]
async fn a_cancel_that_is_never_confirmed_ends_by_its_grace() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    buyer.cancel(&job).await;
    // The grace is as long as the time to accept.
    site.clock.advance(ACCEPT).await;
    site.becomes(&job, "cancelled: cancelled").await;
    let epochs = format!("select epoch_counter from jobs where id = '{job}'");
    assert_eq!(
        site.db.text(&epochs).await,
        "2",
        "a forced end takes an epoch"
    );
    let before = site.rows().await;
    for frame in [
        stopped(&offer),
        fail(&offer, "upload_failed"),
        progress(&offer, Phase::Running),
    ] {
        session.ask(frame).await;
    }
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn a_cancel_outlives_the_gateway_and_ends_although_its_agent_never_comes_back() {
    let site = Site::new().await;
    let mut gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    session.lease_in(Phase::Running).await;
    site.buyer(&gateway).cancel(&job).await;
    gateway.kill();
    let gateway = site.gateway().await;
    assert_eq!(site.buyer(&gateway).job(&job).await["status"], "cancelling");
    site.clock.advance(TTL).await;
    site.becomes(&job, "cancelled: cancelled").await;
    assert_eq!(site.buyer(&gateway).balance().await, (CREDIT, 0));
}

#[tokio::test]
async fn nothing_is_granted_for_a_job_that_is_being_cancelled() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    for name in ["output", "encoder.log"] {
        let answer = session.ask(grant(&offer, name, "put")).await;
        assert!(matches!(answer, GatewayFrame::Granted { .. }), "{answer:?}");
    }
    buyer.cancel(&job).await;
    let before = site.rows().await;
    for name in ["output", "encoder.log", "other.log"] {
        let answer = session.ask(grant(&offer, name, "put")).await;
        assert_eq!(refused(&answer), Code::LeaseConflict, "{name}");
    }
    assert_eq!(site.rows().await, before);
    session.ask(stopped(&offer)).await;
    site.becomes(&job, "cancelled: cancelled").await;
}

#[tokio::test]
async fn a_cancelling_job_is_not_resumed() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    session.cut().await;
    buyer.cancel(&job).await;
    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&offer]).await;
    assert_eq!(welcome.lost, [offer.attempt_id.to_string()]);
    assert!(welcome.resumed.is_empty(), "{welcome:?}");
    site.becomes(&job, "cancelled: cancelled").await;
}
