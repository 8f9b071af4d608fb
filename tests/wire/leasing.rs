//! Offers over the wire: to whom, in what order, and what becomes of those that come back.

use std::time::Duration;

use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{accept, assert_won, commit, decline};
use fencepost_tests::gateway::ACCEPT;
use fencepost_tests::wait::until;
use serde_json::json;

use crate::refused;

#[tokio::test]
async fn the_first_lease_has_the_numbers_one() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.pull_offer().await;
    assert_eq!(offer.job_id.to_string(), job);
    assert_eq!((offer.attempt_number, offer.lease_epoch), (1, 1));
    assert_eq!(site.statuses(&job).await, "active: leased");
    assert!(u128::from(offer.lease_remaining_ms) <= ACCEPT.as_millis());
}

#[tokio::test]
async fn a_device_without_proven_hardware_gets_only_what_software_does() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(b"anything").await;
    let order = |hardware: &str| {
        json!({
            "service": "transcode.v1",
            "params": { "codec": "h264", "hardware": hardware },
            "inputs": { "source": { "upload_id": upload } },
        })
    };
    let hardware = buyer.submit(&order("require")).await;
    let software = buyer.submit(&order("never")).await;
    let mut session = site.device(&gateway, "linux").await.connect(&gateway).await;
    session.pull(4).await;
    assert_eq!(session.offer().await.job_id.to_string(), software);
    session.finds_no_work().await;
    let mut mac = site.device(&gateway, "mac").await;
    mac.words.push("videotoolbox.h264".to_owned());
    let offer = mac.connect(&gateway).await.pull_offer().await;
    assert_eq!(offer.job_id.to_string(), hardware);
}

#[tokio::test]
async fn jobs_that_were_queued_while_a_device_was_away_are_offered_when_it_connects() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await;
    device.connect(&gateway).await.cut().await;
    let buyer = site.buyer(&gateway);
    let jobs = [buyer.submit_noop().await, buyer.submit_noop().await];
    let mut session = device.connect(&gateway).await;
    session.pull(2).await;
    for job in jobs {
        assert_eq!(session.offer().await.job_id.to_string(), job);
    }
}

#[tokio::test]
async fn a_standing_pull_gets_the_job_that_is_posted_later() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    session.pull(1).await;
    let job = site.buyer(&gateway).submit_noop().await;
    assert_eq!(session.offer().await.job_id.to_string(), job);
}

#[tokio::test]
async fn a_job_that_is_cancelled_while_it_is_offered_leaves_its_slot_to_the_next() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let (first, second) = (buyer.submit_noop().await, buyer.submit_noop().await);
    let device = site.device(&gateway, "mac").await.with_slots(1);
    let mut session = device.connect(&gateway).await;
    let offer = session.pull_offer().await;
    assert_eq!(offer.job_id.to_string(), first);
    assert_eq!(buyer.cancel(&first).await, ("cancelled".to_owned(), true));
    assert_eq!(session.pull_offer().await.job_id.to_string(), second);
    assert_eq!(
        refused(&session.ask(accept(&offer)).await),
        Code::LeaseConflict
    );
    assert_eq!(site.statuses(&first).await, "cancelled: cancelled");
}

#[tokio::test]
async fn a_declined_offer_is_free_and_goes_to_somebody_else() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut hot = site.device(&gateway, "hot").await.connect(&gateway).await;
    let offer = hot.pull_offer().await;
    let declined = hot.ask(decline(&offer)).await;
    assert!(
        matches!(declined, GatewayFrame::Done { .. }),
        "{declined:?}"
    );
    assert_eq!(site.statuses(&job).await, "queued: lost");
    assert_eq!(refused(&hot.ask(accept(&offer)).await), Code::LeaseConflict);
    let seen = buyer.job(&job).await;
    assert_eq!(
        (&seen["attempts"], &seen["charged_attempts"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(seen["waiting"]["reason"], "retry_delay");

    site.clock.advance(Duration::from_secs(2)).await;
    until("the job to wait no more", || async {
        buyer.job(&job).await["waiting"].is_null()
    })
    .await;
    hot.finds_no_work().await;
    let mut cool = site.device(&gateway, "cool").await.connect(&gateway).await;
    let (offer, output) = cool.lease_and_upload(&gateway, b"bytes").await;
    assert_eq!(offer.attempt_number, 2);
    let answer = cool.ask(commit(&offer, &output)).await;
    assert_won(&answer);
}

#[tokio::test]
async fn an_offer_that_nobody_answers_comes_back_free_and_its_late_accept_is_told_to_stop() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.pull_offer().await;
    site.clock.advance(ACCEPT).await;
    site.becomes(&job, "queued: lost").await;
    assert_eq!(
        refused(&session.ask(accept(&offer)).await),
        Code::LeaseConflict
    );
    assert_eq!(buyer.job(&job).await["charged_attempts"], 0);
}

#[tokio::test]
async fn an_offer_whose_socket_goes_away_comes_back_at_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    session.pull_offer().await;
    session.cut().await;
    site.becomes(&job, "queued: lost").await;
    assert_eq!(buyer.job(&job).await["charged_attempts"], 0);
}

#[tokio::test]
async fn one_job_and_many_devices_make_one_lease() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let other_gateway = site.gateway().await;
    let mut sessions = Vec::new();
    for number in 0..6 {
        let gateway = if number % 2 == 0 {
            &gateway
        } else {
            &other_gateway
        };
        let device = site.device(gateway, &format!("mac-{number}")).await;
        let session = device.connect(gateway).await;
        session.pull(1).await;
        sessions.push(session);
    }
    let job = site.buyer(&gateway).submit_noop().await;
    let mut offers = 0;
    for session in &mut sessions {
        let heard = session.hear().await;
        offers += usize::from(matches!(heard.frame, GatewayFrame::LeaseOffer(_)));
    }
    assert_eq!(offers, 1);
    assert_eq!(site.statuses(&job).await, "active: leased");
}
