//! A transaction decides and writes by one reading of the clock: a clock that moves while it is under
//! way makes it run again, or comes too late to matter, and is never an inconsistency.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::fencing::FenceViolation;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::world::{SERVICES, TTL};
use fencepost_tests::{Blocker, World};

#[tokio::test]
async fn a_lease_that_runs_out_while_progress_is_under_way_is_refused_and_alarms_nobody() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let mut pause = world.store.faults().pause_at("record_progress:locked");
    let clock = async {
        pause.reached().await;
        world.clock.advance(TTL).await;
        pause.resume();
    };
    let (answer, ()) = tokio::join!(world.progress(&lease, Phase::Uploading), clock);
    let expired = Refusal::Fence(FenceViolation::Expired);
    assert_eq!(answer, ProgressAnswer::Refused(expired));
    assert_eq!(world.statuses(&lease).await, "active, running");
}

#[tokio::test]
async fn a_lease_that_runs_out_while_hello_is_under_way_is_lost_and_alarms_nobody() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let mut pause = world.store.faults().pause_at("begin_session:locked");
    let clock = async {
        pause.reached().await;
        world.clock.advance(TTL).await;
        pause.resume();
    };
    let (answer, ()) = tokio::join!(world.reconnect(&mut mac, vec![lease.held()]), clock);
    let SessionAnswer::Current { resumed, lost, .. } = answer else {
        panic!("{answer:?}");
    };
    assert!(resumed.is_empty(), "{resumed:?}");
    assert_eq!(lost, [lease.attempt]);
    assert_eq!(world.statuses(&lease).await, "queued, lost");
}

#[tokio::test]
async fn a_round_leases_by_the_reading_that_was_compared_with_the_mark() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    world.clock.advance(Duration::from_secs(2)).await;
    world.mark().await;
    let read = world.clock.now().await;
    let mut pause = world.store.faults().pause_at("lease_round:locked");
    let clock = async {
        pause.reached().await;
        world.clock.go_back(Duration::from_secs(1)).await;
        pause.resume();
    };
    let (leased, ()) = tokio::join!(world.pull(&mac, 1), clock);
    assert_eq!(leased[0].expires_at, read + fencepost_tests::world::OFFER);
}

#[tokio::test]
async fn a_sweep_that_we_slept_in_charges_nobody() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let now = world.clock.now().await;
    world.store.finish_sweep(now).await.unwrap();
    let outage = world.store.begin_sweep().await.unwrap().outage;
    assert_eq!(outage, None);
    world.clock.advance(TTL * 2).await;
    let report = world.store.expire_due_after(10, &SERVICES, outage).await;
    assert_eq!(report.unwrap().ended.len(), 1);
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
}

#[tokio::test]
async fn a_sleep_at_the_end_of_a_sweep_charges_nobody() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let report = world.store.expire_due_after(10, &SERVICES, None).await;
    world.clock.advance(TTL * 2).await;
    let looked_at = report.unwrap().looked_at.unwrap();
    world.store.finish_sweep(looked_at).await.unwrap();
    let outage = world.store.begin_sweep().await.unwrap().outage;
    let report = world.store.expire_due_after(10, &SERVICES, outage).await;
    assert_eq!(report.unwrap().ended.len(), 1);
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
}

#[tokio::test]
async fn a_lease_that_a_sweep_left_out_after_an_outage_is_charged_to_nobody() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.clock.advance(TTL * 2).await;
    // Its agent is back too, and says something at that very moment.
    let agent = Blocker::on_attempt(&world.db, lease.attempt).await;
    let outage = world.store.begin_sweep().await.unwrap().outage;
    let report = world.store.expire_due_after(10, &SERVICES, outage).await;
    assert_eq!(report.unwrap().looked_at, None);
    agent.release().await;
    let outage = world.store.begin_sweep().await.unwrap().outage;
    let report = world.store.expire_due_after(10, &SERVICES, outage).await;
    assert!(report.unwrap().looked_at.is_some());
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
}
