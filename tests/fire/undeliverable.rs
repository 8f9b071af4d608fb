//! Offers that come back: whom they bar, and when there is no point in going on.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::JobId;
use fencepost_tests::{Device, World};

/// Longer than any delay of a job, a device, or a pair of both.
const LATER: Duration = Duration::from_secs(301);

/// The device gets the job once more, and gives the offer back.
async fn give_back(world: &World, device: &Device, job: JobId) {
    world.clock.advance(LATER).await;
    world.sweep().await;
    let lease = world.lease(device).await;
    assert_eq!(lease.job, job);
    let offers = vec![lease.claim()];
    world.store.return_offers(offers).await.expect("it runs");
}

#[tokio::test]
async fn one_device_of_three_alone_never_makes_a_job_undeliverable() {
    let world = World::new().await;
    let (hot, second, third) = (
        world.device("hot").await,
        world.device("second").await,
        world.device("third").await,
    );
    let job = world.submit().await;
    for _ in 0..25 {
        give_back(&world, &hot, job).await;
    }
    assert_eq!(world.job_column(job, "status").await, "queued");
    give_back(&world, &second, job).await;
    assert_eq!(world.job_column(job, "status").await, "queued");
    give_back(&world, &third, job).await;
    let view = world.job(job).await;
    assert_eq!(view.failure_code.as_deref(), Some("undeliverable"));
    assert_eq!(view.charged_attempts, 0);
    assert_eq!(world.postings(job).await, "hold 6000, release 6000");
}

#[tokio::test]
async fn where_two_devices_fit_both_must_have_given_it_back() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    // It cannot run the job, so nobody waits for its opinion.
    world.device_with("other", 4, &["noop.v1"]).await;
    let job = world.submit().await;
    for _ in 0..21 {
        give_back(&world, &one, job).await;
    }
    assert_eq!(world.job_column(job, "status").await, "queued");
    give_back(&world, &two, job).await;
    let view = world.job(job).await;
    assert_eq!(view.failure_code.as_deref(), Some("undeliverable"));
}

#[tokio::test]
async fn a_lease_that_is_given_back_over_and_over_makes_its_job_wait_longer_and_fails_it_not() {
    let world = World::new().await;
    let macs = [
        world.device("one").await,
        world.device("two").await,
        world.device("three").await,
    ];
    let job = world.submit().await;
    let mut waits = Vec::new();
    for number in 0..25 {
        let lease = world.lease(&macs[number % 3]).await;
        world.progress(&lease, Phase::Running).await;
        world.end(lease.release()).await;
        let wait = "select extract(epoch from wake_at - authority_now())::int from jobs";
        waits.push(world.db.text(wait).await);
        world.clock.advance(LATER).await;
        world.sweep().await;
    }
    assert_eq!(waits[..10].join(" "), "1 2 4 8 16 32 64 128 256 300");
    assert!(waits[10..].iter().all(|wait| wait == "300"), "{waits:?}");
    // The first offers that come back are not the twentieth.
    for mac in &macs {
        give_back(&world, mac, job).await;
    }
    assert_eq!(world.job_column(job, "status").await, "queued");
    assert_eq!(world.job_column(job, "charged_attempts").await, "0");
}

#[tokio::test]
async fn fewer_than_twenty_returns_from_everywhere_leave_the_job_in_the_queue() {
    let world = World::new().await;
    let mut macs = Vec::new();
    for _ in 0..19 {
        macs.push(world.device("mac").await);
    }
    let job = world.submit().await;
    for mac in &macs {
        give_back(&world, mac, job).await;
    }
    assert_eq!(world.job_column(job, "status").await, "queued");
    give_back(&world, &macs[0], job).await;
    assert_eq!(world.job_column(job, "status").await, "failed");
}

#[tokio::test]
async fn an_offer_that_never_left_the_gateway_bars_nobody_and_counts_against_nobody() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world.submit().await;
    for number in 1..=25 {
        let lease = world.lease(&mac).await;
        assert_eq!((lease.job, lease.attempt_number), (job, number));
        let offers = vec![lease.claim()];
        world
            .store
            .return_undelivered(offers)
            .await
            .expect("it runs");
        // A second at most, however often; then the same device gets it again.
        world.clock.advance(Duration::from_secs(1)).await;
        world.sweep().await;
    }
    assert_eq!(world.job_column(job, "returned_offers").await, "0");
    assert_eq!(world.job_column(job, "charged_attempts").await, "0");
}
