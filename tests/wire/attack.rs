//! What somebody who knows nothing but the contract tried: facts that are wrong one at a time, two
//! gateways that are asked at once, a gateway that wakes up late.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::JobId;
use fencepost_protocol::Code;
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{accept, decline};
use fencepost_tests::gateway::TTL;
use fencepost_tests::wait::until;
use fencepost_tests::worker::Worker;
use serde_json::json;

use crate::refused;

#[tokio::test]
async fn once_a_leap_of_the_clock_is_taken_back_a_lease_that_runs_out_is_charged_again() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let leap = Duration::from_hours(24);
    until("a gateway that sees the clock", || async {
        gateway.readiness().await.0
    })
    .await;
    site.clock.advance(leap).await;
    until("a gateway that says so", || async {
        gateway.readiness().await.1.contains("ahead")
    })
    .await;
    // Somebody needs a while to put it right.
    site.clock.advance(Duration::from_secs(3)).await;
    site.clock.go_back(leap).await;
    until("a gateway that is ready again", || async {
        gateway.readiness().await.0
    })
    .await;
    // The longest lease from before.
    site.pass(TTL).await;

    let job = buyer.submit_noop().await;
    session.lease_in(Phase::Running).await;
    site.pass(TTL).await;
    site.becomes(&job, "queued: lost").await;
    assert_eq!(buyer.job(&job).await["charged_attempts"], 1);
}

#[tokio::test]
async fn a_decline_that_names_another_job_is_refused_like_any_other_stranger() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.pull_offer().await;
    let mut wrong = offer.clone();
    wrong.job_id = JobId::new();
    for _ in 0..2 {
        let before = site.rows().await;
        let answer = session.ask(decline(&wrong)).await;
        assert_eq!(refused(&answer), Code::LeaseConflict);
        assert_eq!(site.rows().await, before);
        session.ask(accept(&offer)).await;
    }
    assert_eq!(site.statuses(&job).await, "active: leased");
}

#[tokio::test]
async fn a_secret_in_the_wrong_place_of_an_address_is_in_no_log() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("telemetry.level", "debug")]).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let (offer, _) = device
        .connect(&gateway)
        .await
        .lease_and_upload(&gateway, b"bytes")
        .await;
    let token = offer.commit_token.expose();
    // A base address that ends in a slash, and ids that are none.
    gateway
        .get(&format!("{}/{}", gateway.url, offer.output.url))
        .await;
    let worker = Worker::new(&gateway, &device);
    worker.post(&format!("/{token}/commit"), &json!({})).await;
    buyer.get(&format!("/v1/jobs/{}", site.api_key)).await;
    buyer.get(&format!("/v1/jobs/{job}/{}", device.token)).await;
    let log = gateway.process.log();
    assert!(log.contains(&format!("/v1/jobs/{job}/(hidden)")), "{log}");
    let link = offer.output.url.rsplit('/').next().unwrap_or_default();
    for secret in [link, &token, &site.api_key, &device.token] {
        assert!(secret.len() > 20);
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}
