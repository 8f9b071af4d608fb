//! Leases over HTTP, by a worker beside the socket or without one.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{EventId, RequestId};
use fencepost_protocol::GatewayFrame;
use fencepost_tests::agent_frames::{accept, progress};
use fencepost_tests::gateway::TTL;
use fencepost_tests::worker::{Worker, output, path, with_secret};
use fencepost_tests::{Site, TestGateway};
use reqwest::StatusCode;
use serde_json::{Value, json};

/// The code and disposition of a refusal.
pub(crate) fn refusal((status, problem): &(StatusCode, Value)) -> (u16, &str, &str) {
    let text = |key: &str| problem[key].as_str().unwrap_or_default();
    (status.as_u16(), text("code"), text("disposition"))
}

pub(crate) async fn worker(site: &Site, gateway: &TestGateway) -> Worker {
    Worker::new(gateway, &site.device(gateway, "mac").await)
}

#[tokio::test]
async fn a_job_is_claimed_worked_on_and_published_without_any_socket() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mac = worker(&site, &gateway).await;
    assert_eq!(mac.ask(RequestId::new()).await.0, StatusCode::NO_CONTENT);
    let job = buyer.submit_noop().await;
    let lease = mac.claim().await;
    assert_eq!(lease["job_id"], job);
    assert_eq!(lease["scope"], site.org.to_string());
    assert_eq!(lease["lease_remaining_ms"], 8_000);
    let (status, told) = mac
        .say(
            &lease,
            "progress",
            json!({ "phase": "running", "percent": 5 }),
        )
        .await;
    assert_eq!(
        (status, &told["directive"]),
        (StatusCode::OK, &json!("continue"))
    );
    site.clock.advance(TTL / 2).await;
    let (status, told) = mac.say(&lease, "renew", json!({})).await;
    assert_eq!(
        (status, &told["lease_remaining_ms"]),
        (StatusCode::OK, &json!(8_000)),
        "{told}"
    );
    let (_, told) = mac
        .say(
            &lease,
            "grants",
            json!({ "name": "output", "direction": "put" }),
        )
        .await;
    assert_eq!(told["object_key"], lease["output"]["object_key"]);
    mac.upload(&lease, b"the result").await;
    let (status, told) = mac
        .end(&lease, "commit", output(&lease, b"the result"))
        .await;
    assert_eq!(
        (status, &told["status"]),
        (StatusCode::OK, &json!("succeeded")),
        "{told}"
    );
    assert_eq!(buyer.download(&job).await, b"the result");
}

#[tokio::test]
async fn events_and_artifacts_are_written_once_and_said_again_as_often_as_needed() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mac = worker(&site, &gateway).await;
    let lease = mac.claim().await;
    let mut event = with_secret(
        &lease,
        json!({ "event_id": EventId::new(), "seq": 0, "kind": "started" }),
    );
    event["job_id"] = lease["job_id"].clone();
    event["lease_epoch"] = lease["lease_epoch"].clone();
    let events = path(&lease, "events");
    let first = mac.post(&events, &event).await;
    assert_eq!(
        (first.0, &first.1["replayed"]),
        (StatusCode::CREATED, &json!(false))
    );
    let again = mac.post(&events, &event).await;
    assert_eq!(
        (again.0, &again.1["replayed"]),
        (StatusCode::OK, &json!(true))
    );
    event["kind"] = json!("ended");
    let other = mac.post(&events, &event).await;
    assert_eq!(refusal(&other), (409, "run_event_conflict", "fix"));

    let (_, link) = mac
        .say(
            &lease,
            "grants",
            json!({ "name": "a.log", "direction": "put" }),
        )
        .await;
    let put = gateway.put(link["url"].as_str().unwrap(), b"log").await;
    assert_eq!(put.status(), StatusCode::CREATED);
    let mut artifact = output(&lease, b"log")["output"].clone();
    artifact["name"] = json!("a.log");
    artifact["object_key"] = link["object_key"].clone();
    artifact["job_id"] = lease["job_id"].clone();
    artifact["lease_epoch"] = lease["lease_epoch"].clone();
    let artifact = with_secret(&lease, artifact);
    let artifacts = path(&lease, "artifacts");
    assert_eq!(mac.post(&artifacts, &artifact).await.0, StatusCode::CREATED);
    assert_eq!(mac.post(&artifacts, &artifact).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_workspace_is_handed_over_after_the_end_by_the_lease_that_it_ended_under() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mac = worker(&site, &gateway).await;
    let lease = mac.claim().await;
    let handle = format!("{}-work", lease["attempt_id"].as_str().unwrap());
    let mut kept = with_secret(&lease, json!({ "handle": handle, "retain_for": "1m" }));
    kept["job_id"] = lease["job_id"].clone();
    kept["lease_epoch"] = lease["lease_epoch"].clone();
    let retain = path(&lease, "retain");
    let early = mac.post(&retain, &kept).await;
    assert_eq!(refusal(&early).2, "stop");
    let failed = json!({ "failure_code": "runner_failed" });
    assert_eq!(mac.end(&lease, "fail", failed).await.0, StatusCode::OK);
    for replayed in [false, true] {
        let (status, told) = mac.post(&retain, &kept).await;
        assert_eq!(
            (status, &told["replayed"]),
            (StatusCode::OK, &json!(replayed))
        );
    }
    kept["retain_for"] = json!("25h");
    let (status, problem) = mac.post(&retain, &kept).await;
    assert_eq!(
        (status, &problem["field"]),
        (StatusCode::BAD_REQUEST, &json!("retain_for"))
    );
}

#[tokio::test]
async fn whoever_lost_the_lease_changes_nothing_and_learns_one_thing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let (mac, other) = (worker(&site, &gateway).await, worker(&site, &gateway).await);
    let lease = mac.claim().await;
    mac.upload(&lease, b"late").await;
    site.clock.advance(TTL).await;
    site.becomes(&job, "queued: lost").await;
    let next = other.claim().await;
    assert_eq!(next["job_id"], job);
    let mut foreign = next.clone();
    foreign["commit_token"] = lease["commit_token"].clone();
    let before = site.rows().await;
    for lease in [&lease, &foreign] {
        for (operation, what, code) in [
            ("progress", json!({ "phase": "running" }), "lease_conflict"),
            ("renew", json!({}), "lease_conflict"),
            (
                "grants",
                json!({ "name": "output", "direction": "put" }),
                "lease_conflict",
            ),
            (
                "commit",
                with_secret(lease, output(lease, b"late")),
                "commit_conflict",
            ),
            (
                "fail",
                with_secret(lease, json!({ "failure_code": "upload_failed" })),
                "commit_conflict",
            ),
            ("release", with_secret(lease, json!({})), "commit_conflict"),
        ] {
            let refused = mac.say(lease, operation, what).await;
            assert_eq!(refusal(&refused), (409, code, "stop"), "{operation}");
        }
    }
    assert_eq!(site.rows().await, before);
    other.upload(&next, b"right").await;
    let (status, told) = other.end(&next, "commit", output(&next, b"right")).await;
    assert_eq!(status, StatusCode::OK, "{told}");
}

#[tokio::test]
async fn a_claim_beside_a_socket_takes_its_slot_and_its_end_frees_it() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let device = site.device(&gateway, "mac").await.with_slots(1);
    let mut session = device.connect(&gateway).await;
    let mac = Worker::new(&gateway, &device);
    for end in ["release", "commit"] {
        buyer.submit_noop().await;
        let lease = mac.claim().await;
        session.pull(1).await;
        let heard = session
            .until(|heard| {
                matches!(
                    heard.frame,
                    GatewayFrame::NoWork | GatewayFrame::LeaseOffer(_)
                )
            })
            .await;
        assert!(matches!(heard.frame, GatewayFrame::NoWork), "{heard:?}");
        session.pull(1).await;
        let ended = if end == "commit" {
            mac.upload(&lease, b"it").await;
            mac.end(&lease, end, output(&lease, b"it")).await
        } else {
            mac.end(&lease, end, json!({ "reason": "busy" })).await
        };
        assert_eq!(ended.0, StatusCode::OK, "{}", ended.1);
        if end == "release" {
            // The job waits a little after a return.
            site.clock.advance(std::time::Duration::from_secs(2)).await;
        } else {
            buyer.submit_noop().await;
        }
        let offer = session.offer().await;
        assert!(matches!(
            session.ask(accept(&offer)).await,
            GatewayFrame::Done { .. }
        ));
        assert_eq!(mac.ask(RequestId::new()).await.0, StatusCode::NO_CONTENT);
        session.ask(progress(&offer, Phase::Running)).await;
        let released = session.ask(fencepost_protocol::AgentFrame::Fail {
            lease: offer.lease(),
            commit_token: offer.commit_token.clone(),
            failure_code: "runner_failed".to_owned(),
            message: String::new(),
        });
        released.await;
    }
}

#[tokio::test]
async fn a_worker_is_told_to_stop_by_the_answers_to_what_it_says_and_the_socket_is_left_in_peace() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let mac = Worker::new(&gateway, &device);
    let lease = mac.claim().await;
    mac.upload(&lease, b"it").await;
    assert_eq!(buyer.cancel(&job).await, ("cancelling".to_owned(), true));
    for (operation, what) in [
        ("progress", json!({ "phase": "uploading" })),
        ("renew", json!({})),
    ] {
        let (_, told) = mac.say(&lease, operation, what).await;
        assert_eq!(
            (&told["directive"], &told["reason"]),
            (&json!("stop"), &json!("buyer_cancelled"))
        );
    }
    session.pull(1).await;
    let heard = session
        .until(|heard| !matches!(heard.frame, GatewayFrame::Heartbeat))
        .await;
    assert!(matches!(heard.frame, GatewayFrame::NoWork), "{heard:?}");
    let refused = mac.end(&lease, "commit", output(&lease, b"it")).await;
    assert_eq!(refusal(&refused), (409, "buyer_cancelled", "stop"));
    site.becomes(&job, "cancelled: cancelled").await;
}

#[tokio::test]
async fn a_commit_of_other_bytes_than_declared_is_a_verdict_and_no_conflict() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mac = worker(&site, &gateway).await;
    let lease = mac.claim().await;
    mac.upload(&lease, b"it").await;
    let refused = mac.end(&lease, "commit", output(&lease, b"at")).await;
    assert_eq!(refusal(&refused), (409, "upload_failed", "stop"));
    site.becomes(&job, "queued: failed").await;
}

#[tokio::test]
async fn a_revoked_devices_commit_is_refused_at_once_unless_it_was_committing_already() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    for by in ["disable", "revoke"] {
        let job = buyer.submit_noop().await;
        let device = site.device(&gateway, by).await;
        let mac = Worker::new(&gateway, &device);
        let lease = mac.claim().await;
        mac.upload(&lease, b"it").await;
        if by == "disable" {
            site.store.disable_device(device.id, None).await.unwrap();
        } else {
            let attempt = lease["attempt_id"].as_str().unwrap().parse().unwrap();
            site.store.revoke_attempt(attempt).await.unwrap();
        }
        let refused = mac.end(&lease, "commit", output(&lease, b"it")).await;
        let expected = if by == "disable" { 401 } else { 409 };
        assert_eq!(refused.0, expected, "{}", refused.1);
        site.becomes(&job, "queued: lost").await;
        buyer.cancel(&job).await;
    }
    // Committing: it goes on though nobody may ask for it any more.
    let gateway = site.gateway_with(&[("verifier.concurrency", "1")]).await;
    let job = buyer.at(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mac = Worker::new(&gateway, &device);
    let lease = mac.claim().await;
    mac.upload(&lease, b"it").await;
    let (status, _) = mac.end(&lease, "commit", output(&lease, b"it")).await;
    assert_eq!(status, StatusCode::OK);
    site.store.disable_device(device.id, None).await.unwrap();
    site.becomes(&job, "succeeded: succeeded").await;
}
