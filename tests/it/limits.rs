//! Limits and turns: dead devices block nobody, no org's crowd delays another, and what a gateway
//! does not know it leaves to the rules that need no knowledge.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{JobId, OrgId};
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::submit_job::Priority;
use fencepost_tests::World;
use fencepost_tests::lease::{Device, Lease};
use fencepost_tests::world::{CREDIT, TTL};

/// Another org, with credit.
async fn org(world: &World, name: &str, limit: Option<i64>) -> OrgId {
    let org = world.store.create_org(name, limit).await.expect("an org");
    world.store.add_credit(org, CREDIT).await.expect("credit");
    org
}

/// A queued job of an org, without inputs.
async fn submit_for(world: &World, org: OrgId) -> JobId {
    world
        .submit_with(|job| {
            job.org = org;
            job.inputs.clear();
        })
        .await
}

/// One round for several devices with one free slot each.
async fn round(world: &World, devices: &[&Device]) -> Vec<Lease> {
    let pulls = devices.iter().map(|device| device.pull(1)).collect();
    let round = world.store.lease_round(pulls, Cursor::default()).await;
    round
        .expect("it runs")
        .leased
        .into_iter()
        .map(Lease)
        .collect()
}

#[tokio::test]
async fn attempts_of_a_dead_device_hold_an_orgs_places_until_their_leases_end_and_no_longer() {
    let world = World::new().await;
    let limited = org(&world, "limited", Some(5)).await;
    let dead = world
        .device_with("dead", 8, &["transcode.v1", "encode.h264"])
        .await;
    let alive = world.device("alive").await;
    for _ in 0..5 {
        submit_for(&world, limited).await;
        let lease = world.lease(&dead).await;
        world.progress(&lease, Phase::Running).await;
    }
    let next = submit_for(&world, limited).await;
    assert!(world.pull(&alive, 1).await.is_empty(), "a sixth place");
    world.clock.advance(TTL).await;
    // One sweep later there is room, whatever became of the gateway that the device was at.
    world.sweep().await;
    let jobs: Vec<_> = world
        .pull(&alive, 4)
        .await
        .iter()
        .map(|lease| lease.job)
        .collect();
    assert!(!jobs.is_empty(), "nothing is leased");
    let started = world.job_column(next, "status").await;
    assert!(
        started == "active" || jobs.len() == 4,
        "{started}: {jobs:?}"
    );
}

#[tokio::test]
async fn when_every_slot_is_taken_by_expired_attempts_one_sweep_frees_them_all() {
    let world = World::new().await;
    let limited = org(&world, "limited", Some(3)).await;
    let mac = world
        .device_with("mac", 3, &["transcode.v1", "encode.h264"])
        .await;
    for _ in 0..3 {
        submit_for(&world, limited).await;
        let lease = world.lease(&mac).await;
        world.progress(&lease, Phase::Running).await;
    }
    world.clock.advance(TTL).await;
    // The round itself says that there is something to sweep first.
    let pulls = vec![mac.pull(3)];
    let report = world
        .store
        .lease_round(pulls, Cursor::default())
        .await
        .unwrap();
    assert!(report.due && report.leased.is_empty(), "{report:?}");
    assert_eq!(world.sweep().await.ended.len(), 3);
    assert_eq!(world.pull(&mac, 3).await.len(), 3);
}

#[tokio::test]
async fn one_job_of_a_second_org_starts_with_the_next_free_slot_though_hundreds_wait_before_it() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    world.submit_many(300).await;
    let mut running = round(&world, &[&one, &two]).await;
    assert_eq!(running.len(), 2);
    let other = org(&world, "other", None).await;
    let job = submit_for(&world, other).await;
    let lease = running.pop().expect("two are running");
    world.progress(&lease, Phase::Uploading).await;
    world.win(&lease).await;
    let next = round(&world, &[&one, &two]).await;
    assert!(
        next.iter().any(|lease| lease.job == job),
        "it waits behind the crowd"
    );
}

#[tokio::test]
async fn a_job_that_needs_a_rare_device_gets_it_though_short_jobs_keep_coming() {
    let world = World::new().await;
    let rare = world
        .device_with("rare", 1, &["transcode.v1", "encode.h264", "encode.prores"])
        .await;
    world.submit_many(20).await;
    let wanted = world
        .submit_with(|job| job.lane = "encode.prores transcode.v1".to_owned())
        .await;
    for turn in 0.. {
        assert!(turn < 25, "it never starts");
        let lease = world.lease(&rare).await;
        if lease.job == wanted {
            break;
        }
        world.progress(&lease, Phase::Uploading).await;
        world.win(&lease).await;
        world.submit().await;
        world.clock.advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn a_low_priority_job_is_overtaken_only_for_as_long_as_the_head_start_of_others() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let low = world.submit_with(|job| job.priority = Priority::Low).await;
    world.clock.advance(Duration::from_mins(29)).await;
    let high = world.submit_with(|job| job.priority = Priority::High).await;
    let lease = world.lease(&mac).await;
    assert_eq!(lease.job, high, "no head start");
    world.progress(&lease, Phase::Uploading).await;
    world.win(&lease).await;
    world.clock.advance(Duration::from_mins(2)).await;
    world.submit_with(|job| job.priority = Priority::High).await;
    assert_eq!(world.lease(&mac).await.job, low, "it waits for ever");
}

#[tokio::test]
async fn a_sweep_ends_attempts_of_a_service_that_it_does_not_know_like_all_others() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let committing = {
        let other = world.device("other").await;
        let lease = world.in_phase(&other, Phase::Uploading).await;
        world.begin_verification(&lease).await;
        lease
    };
    world.clock.advance(TTL).await;
    // An older gateway, which knows neither.
    let report = world.store.expire_due(10, &["older.v1"]).await.unwrap();
    assert!(
        report.verify.is_empty(),
        "it verifies what it does not know"
    );
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    assert_eq!(world.job_column(lease.job, "charged_attempts").await, "1");
    assert_eq!(world.statuses(&committing).await, "verifying, committing");
    // A newer one takes the verification over when the older has put it off.
    world.clock.advance(TTL).await;
    assert_eq!(world.sweep().await.verify.len(), 1);
}
