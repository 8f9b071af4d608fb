//! Leases that are taken away while their agent works: it is told at once, once, and nobody else.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::AttemptId;
use fencepost_protocol::{GatewayFrame, LeaseOffer};
use fencepost_tests::Site;
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{decline, progress, release};
use fencepost_tests::gateway::TTL;
use fencepost_tests::worker::Worker;

/// Waits for the push that ends this lease.
async fn is_told(session: &mut Session, offer: &LeaseOffer) {
    let pushed = session
        .until(|heard| matches!(heard.frame, GatewayFrame::Cancel { .. }))
        .await;
    assert_eq!(pushed.lease, Some(offer.lease()), "another lease is named");
    let GatewayFrame::Cancel { reason } = pushed.frame else {
        unreachable!()
    };
    assert_eq!(reason, "revoked");
}

/// Nothing was pushed up to a frame that can be asked for.
async fn is_told_nothing(session: &mut Session) {
    session.finds_no_work().await;
}

#[tokio::test]
async fn an_agent_whose_lease_is_revoked_or_runs_out_is_told_at_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    buyer.submit_noop().await;
    let revoked = session.lease_in(Phase::Running).await;
    site.store.revoke_attempt(revoked.attempt_id).await.unwrap();
    is_told(&mut session, &revoked).await;
    let late = session.lease_in(Phase::Running).await;
    site.clock.advance(TTL).await;
    is_told(&mut session, &late).await;
}

#[tokio::test]
async fn what_an_agent_gave_back_itself_is_not_told_it_again() {
    let site = Site::new().await;
    // The device waits between its returns, so nothing is leased to it that a push could be about.
    let gateway = site.gateway_with(&[("leases.pull", "1s")]).await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    buyer.submit_noop().await;
    let declined = session.pull_offer().await;
    session.ask(decline(&declined)).await;
    is_told_nothing(&mut session).await;
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    buyer.submit_noop().await;
    let released = other.lease_in(Phase::Running).await;
    other.ask(release(&released)).await;
    is_told_nothing(&mut other).await;
}

#[tokio::test]
async fn the_loss_of_a_claim_is_no_business_of_the_devices_session() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1s")]).await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    site.buyer(&gateway).submit_noop().await;
    let claimed = Worker::new(&gateway, &device).claim().await;
    let attempt: AttemptId = claimed["attempt_id"].as_str().unwrap().parse().unwrap();
    // A sweep has shown the session that one of its device's slots is taken.
    session.finds_no_work().await;
    site.store.disable_device(device.id, None).await.unwrap();
    let heard = session.try_hear().await;
    let said = heard.map(|heard| heard.frame);
    assert!(matches!(said, Ok(GatewayFrame::Disabled)), "{said:?}");
    let status = format!("select status from attempts where id = '{attempt}'");
    assert_eq!(site.db.text(&status).await, "lost");
}

#[tokio::test]
async fn a_resumed_lease_that_is_revoked_is_named_by_the_epoch_that_its_agent_holds_now() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    site.buyer(&gateway).submit_noop().await;
    let offer = session.lease_in(Phase::Running).await;
    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&offer]).await;
    let resumed = fencepost_tests::agent_frames::resumed(&offer, &welcome);
    session.ask(progress(&resumed, Phase::Running)).await;
    site.store.revoke_attempt(offer.attempt_id).await.unwrap();
    is_told(&mut session, &resumed).await;
}
