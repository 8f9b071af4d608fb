//! A clock that leapt ahead and came back, whose mark has not followed: what it wrote while it was
//! ahead lasts no longer for it.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::pull_back::PulledBack;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::world::{OFFER, TTL, good};
use fencepost_tests::{Lease, World};

const TWO_YEARS: Duration = Duration::from_hours(2 * 365 * 24);

/// A lease that was given two years from now.
async fn lease_of_the_future(world: &World, mac: &fencepost_tests::Device) -> Lease {
    world.clock.advance(TWO_YEARS).await;
    let lease = world.in_phase(mac, Phase::Running).await;
    world.clock.go_back(TWO_YEARS).await;
    lease
}

#[tokio::test]
async fn a_lease_of_the_future_is_renewed_to_an_ordinary_one() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = lease_of_the_future(&world, &mac).await;
    let answer = world.progress(&lease, Phase::Running).await;
    let ProgressAnswer::Renewed(renewal) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(renewal.remaining, TTL);
    assert_eq!(renewal.expires_at, world.clock.now().await + TTL);
}

#[tokio::test]
async fn a_lease_of_the_future_is_resumed_to_an_ordinary_one_also_twice() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = lease_of_the_future(&world, &mac).await;
    for epoch in [2, 3] {
        let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
        let SessionAnswer::Current { resumed, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(resumed[0].epoch, epoch);
        assert_eq!(resumed[0].remaining, TTL);
    }
}

#[tokio::test]
async fn what_begins_in_the_future_is_brought_back_and_nothing_else_is_touched() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let ordinary = world.in_phase(&mac, Phase::Running).await;
    world.clock.advance(TWO_YEARS).await;
    let accepted = world.in_phase(&mac, Phase::Running).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    let failed = world.in_phase(&mac, Phase::Running).await;
    world.end(failed.fail(FailureCode::DownloadFailed)).await;
    world.clock.go_back(TWO_YEARS).await;
    let before = world.attempt_column(ordinary.attempt, "xmin").await;
    let pulled = world.store.pull_back().await.unwrap();
    assert_eq!(
        pulled,
        PulledBack {
            jobs: 1,
            attempts: 2
        }
    );
    let after = world.attempt_column(ordinary.attempt, "xmin").await;
    assert_eq!(after, before);
    let now = world.clock.now().await;
    let ends = async |lease: &Lease| {
        let query = format!(
            "select (extract(epoch from lease_expires_at - authority_now()) * 1000)::bigint
             from attempts where id = '{}'",
            lease.attempt
        );
        world.db.text(&query).await
    };
    assert_eq!(ends(&accepted).await, TTL.as_millis().to_string());
    assert_eq!(ends(&offered).await, OFFER.as_millis().to_string());
    assert_eq!(
        world.store.pull_back().await.unwrap(),
        PulledBack::default()
    );
    // A Mac that never comes back loses it when an ordinary lease would have ended.
    world.clock.advance(TTL).await;
    world.sweep().await;
    assert_eq!(world.statuses(&accepted).await, "queued, lost");
    assert_eq!(world.statuses(&offered).await, "queued, lost");
    // And a job that was put to sleep wakes within the longest delay there is.
    world.clock.set(now + Duration::from_mins(5)).await;
    world.sweep().await;
    assert_eq!(world.job_column(failed.job, "wake_at is null").await, "t");
}

#[tokio::test]
async fn a_device_that_failed_in_the_future_is_leased_to_now() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.clock.advance(TWO_YEARS).await;
    for _ in 0..3 {
        let lease = world.in_phase(&mac, Phase::Running).await;
        world.end(lease.fail(FailureCode::DeviceFault)).await;
    }
    world.submit().await;
    assert!(
        world.pull(&mac, 1).await.is_empty(),
        "it is backed off after three failures in a row"
    );
    world.clock.go_back(TWO_YEARS).await;
    assert_eq!(world.pull(&mac, 1).await.len(), 1);
}

#[tokio::test]
async fn work_goes_on_without_pairing_after_two_years_forward_and_back() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.mark().await;
    world.clock.advance(TWO_YEARS).await;
    // The losses are nobody's fault: nobody swept for two years.
    let outage = world.store.begin_sweep().await.unwrap().outage;
    let swept = world.store.expire_due_after(10, &["transcode.v1"], outage);
    let swept = swept.await.unwrap();
    assert_eq!(swept.ended.len(), 1);
    let looked_at = swept.looked_at.unwrap();
    world.store.finish_sweep(looked_at).await.unwrap();
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
    world.clock.go_back(TWO_YEARS).await;
    // By that clock the job's deadline had passed; a new one is done by the same device.
    assert_eq!(world.statuses(&lease).await, "failed, lost");
    world.submit().await;
    let next = world.lease(&mac).await;
    world.progress(&next, Phase::Uploading).await;
    let ticket = world.begin_verification(&next).await;
    world.settle(&ticket, good(30.0)).await;
    assert_eq!(world.statuses(&next).await, "succeeded, succeeded");
    // What was swept last is not two years away for two years.
    assert_eq!(world.store.begin_sweep().await.unwrap().outage, None);
    let now = world.clock.now().await;
    world.store.finish_sweep(now).await.unwrap();
    world.clock.advance(TTL * 3).await;
    let outage = world.store.begin_sweep().await.unwrap().outage;
    assert!(outage.is_some(), "an outage is noticed again");
}
