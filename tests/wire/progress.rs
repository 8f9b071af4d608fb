//! Progress over the wire: who may renew a lease, and what renews it.

use std::collections::HashSet;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{AttemptId, JobId};
use fencepost_protocol::{AgentFrame, Code, Directive, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{accept, commit, declared, fail, progress, release};
use fencepost_tests::gateway::TTL;
use serde_json::json;

use crate::refused;

#[tokio::test]
async fn progress_without_a_token_renews_the_lease_and_keeps_the_epoch() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease().await;
    site.clock.advance(TTL / 2).await;
    // By hand, to be sure that no token travels, and with a field of a newer agent.
    let request = "019adf00-0000-7000-8000-000000000001";
    let frame = json!({
        "type": "progress", "request_id": request, "job_id": offer.job_id,
        "attempt_id": offer.attempt_id, "lease_epoch": 1, "phase": "running", "percent": 12.5,
        "mood": "good",
    });
    session.say_text(frame.to_string()).await;
    let answer = session.answer(request.parse().unwrap()).await;
    assert_eq!(
        answer.lease,
        Some(offer.lease()),
        "an answer names its lease"
    );
    let GatewayFrame::ProgressOk {
        lease_remaining_ms,
        directive: Directive::Continue,
        ..
    } = answer.frame
    else {
        panic!("{answer:?}")
    };
    assert_eq!(u128::from(lease_remaining_ms), TTL.as_millis());
    let seen = buyer.job(&job).await;
    assert_eq!(
        (&seen["phase"], &seen["percent"]),
        (&json!("running"), &json!(12.5))
    );
    assert_eq!(buyer.attempts(&job).await[0]["lease_epoch"], 1);
}

#[tokio::test]
async fn progress_of_anybody_else_is_one_and_the_same_conflict() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    let before = site.rows().await;
    let wrong = |change: fn(&mut fencepost_protocol::LeaseOffer)| {
        let mut wrong = offer.clone();
        change(&mut wrong);
        wrong
    };
    for wrong in [
        wrong(|offer| offer.lease_epoch = 2),
        wrong(|offer| offer.lease_epoch = 0),
        wrong(|offer| offer.job_id = JobId::new()),
        wrong(|offer| offer.attempt_id = AttemptId::new()),
    ] {
        for frame in [progress(&wrong, Phase::Uploading), accept(&wrong)] {
            assert_eq!(refused(&session.ask(frame).await), Code::LeaseConflict);
        }
        let grant = AgentFrame::Grant {
            lease: wrong.lease(),
            name: "output".to_owned(),
            direction: "put".to_owned(),
            first_part: None,
        };
        assert_eq!(refused(&session.ask(grant).await), Code::LeaseConflict);
    }
    let foreign = other.ask(progress(&offer, Phase::Uploading)).await;
    assert_eq!(refused(&foreign), Code::LeaseConflict);
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn heartbeats_alone_do_not_keep_a_lease() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    session.lease_in(Phase::Running).await;
    session.say(AgentFrame::Heartbeat).await;
    site.clock.advance(TTL).await;
    site.becomes(&job, "queued: lost").await;
}

#[tokio::test]
async fn a_lease_that_has_run_out_is_dead_although_no_sweep_has_seen_it() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.sweep", "1h")]).await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    site.clock.advance(TTL).await;
    let before = site.rows().await;
    for (frame, code) in [
        (progress(&offer, Phase::Uploading), Code::LeaseConflict),
        (accept(&offer), Code::LeaseConflict),
        (commit(&offer, &output), Code::CommitConflict),
        (fail(&offer, "upload_failed"), Code::CommitConflict),
        (release(&offer), Code::CommitConflict),
    ] {
        assert_eq!(refused(&session.ask(frame).await), code);
    }
    assert_eq!(site.rows().await, before);

    // A match round that could serve the job ends what blocks it.
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let second = other.lease().await;
    assert_eq!(second.attempt_number, 2);
    assert!(second.lease_epoch > offer.lease_epoch);
    assert_eq!(site.statuses(&job).await, "active: lost, leased");
}

#[tokio::test]
async fn a_new_link_is_given_to_the_holder_only_and_only_for_its_own_objects() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_transcode().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease().await;
    let grant = |name: &str, direction: &str| AgentFrame::Grant {
        lease: offer.lease(),
        name: name.to_owned(),
        direction: direction.to_owned(),
        first_part: None,
    };
    let input = session.ask(grant("source", "get")).await;
    let GatewayFrame::Granted { url, .. } = input else {
        panic!("{input:?}")
    };
    assert!(gateway.get(&url).await.status().is_success());
    let output = session.ask(grant("output", "put")).await;
    let GatewayFrame::Granted {
        url, object_key, ..
    } = output
    else {
        panic!("{output:?}")
    };
    assert_eq!(object_key, declared(&offer, b"").object_key);
    assert!(gateway.put(&url, b"bytes").await.status().is_success());
    for (name, direction) in [
        ("source", "put"),
        ("output", "get"),
        ("../x", "get"),
        ("x", "delete"),
    ] {
        let answer = session.ask(grant(name, direction)).await;
        let GatewayFrame::Rejected {
            code: Code::InvalidRequest,
            ..
        } = answer
        else {
            panic!("{name} {direction}: {answer:?}")
        };
    }
}

#[tokio::test]
async fn a_burst_of_progress_from_a_peer_that_reads_is_answered_frame_by_frame() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    let mut asked = HashSet::new();
    for _ in 0..1_000 {
        asked.insert(session.say(progress(&offer, Phase::Running)).await);
    }
    while !asked.is_empty() {
        let heard = session.hear().await;
        let is_answer = heard
            .request_id
            .is_some_and(|request| asked.remove(&request));
        let fits = matches!(
            heard.frame,
            GatewayFrame::ProgressOk { .. }
                | GatewayFrame::Busy { .. }
                | GatewayFrame::Rejected { .. }
        );
        assert!(!is_answer || fits, "{heard:?}");
    }
    assert_eq!(site.statuses(&job).await, "active: running");
    let answer = session.ask(progress(&offer, Phase::Uploading)).await;
    assert!(
        matches!(answer, GatewayFrame::ProgressOk { .. }),
        "{answer:?}"
    );
}
