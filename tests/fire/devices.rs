//! Devices that fail what they are given: backed off, then quarantined, while others do the work.

use std::collections::HashMap;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::DeviceId;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_tests::{Device, Lease, World};

/// Fails whatever the device gets at once, second by second; after how many seconds it got how many.
async fn fail_everything(world: &World, device: &Device, seconds: u64) -> Vec<(u64, usize)> {
    let mut given = Vec::new();
    for second in 0..seconds {
        let leases = world.pull(device, 4).await;
        if !leases.is_empty() {
            given.push((second, leases.len()));
        }
        for lease in leases {
            world.progress(&lease, Phase::Downloading).await;
            world.end(lease.fail(FailureCode::DeviceFault)).await;
        }
        world.clock.advance(Duration::from_secs(1)).await;
    }
    given
}

#[tokio::test]
async fn a_device_that_fails_everything_at_once_leaves_the_jobs_to_the_healthy_one() {
    let world = World::new().await;
    let (broken, healthy) = (world.device("broken").await, world.device("healthy").await);
    world.submit_many(50).await;
    let mut given: HashMap<DeviceId, usize> = HashMap::new();
    for _ in 0..200 {
        let pulls = vec![broken.pull(4), healthy.pull(4)];
        let round = world.store.lease_round(pulls, Cursor::default()).await;
        for lease in round.expect("a round runs").leased.into_iter().map(Lease) {
            *given.entry(lease.device).or_default() += 1;
            world.progress(&lease, Phase::Uploading).await;
            if lease.device == broken.id {
                world.end(lease.fail(FailureCode::DownloadFailed)).await;
            } else {
                world.win(&lease).await;
            }
        }
        world.clock.advance(Duration::from_secs(1)).await;
        world.sweep().await;
    }
    let ended = "select status || ' ' || count(*) from jobs group by status";
    assert_eq!(world.db.texts(ended).await, ["succeeded 50"]);
    let most = "select max(charged_attempts) < min(max_attempts) from jobs";
    assert_eq!(world.db.text(most).await, "t", "a budget was used up");
    assert_eq!(given[&healthy.id], 50);
    assert!(given[&broken.id] <= 12, "it went on eating: {given:?}");
    let again = "select count(*) from (select from attempts group by job_id, device_id
        having count(*) > 1) twice";
    assert_eq!(
        world.db.text(again).await,
        "0",
        "a job went to the same device again"
    );
}

#[tokio::test]
async fn failures_in_a_row_back_a_device_off_and_then_quarantine_it_for_an_hour() {
    let world = World::new().await;
    let broken = world
        .device_with("broken", 1, &["transcode.v1", "encode.h264"])
        .await;
    world.submit_many(40).await;
    let given = fail_everything(&world, &broken, 200).await;
    // Three for nothing, then twice as long each time, until ten have failed.
    let seconds: Vec<u64> = given.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [0, 1, 2, 3, 5, 9, 17, 33, 65, 129]);
    world.clock.advance(Duration::from_mins(55)).await;
    assert!(world.pull(&broken, 1).await.is_empty(), "quarantined");
    world.clock.advance(Duration::from_mins(5)).await;
    // Tried once more after an hour; one good end and all is forgotten.
    let lease = world.lease(&broken).await;
    assert!(world.pull(&broken, 1).await.is_empty());
    world.progress(&lease, Phase::Uploading).await;
    world.win(&lease).await;
    for _ in 0..3 {
        let lease = world.lease(&broken).await;
        world.progress(&lease, Phase::Downloading).await;
        world.end(lease.fail(FailureCode::DeviceFault)).await;
    }
}

#[tokio::test]
async fn a_device_that_gives_every_offer_back_is_backed_off_and_never_quarantined() {
    let world = World::new().await;
    let hot = world.device("hot").await;
    world.submit_many(60).await;
    let mut given = Vec::new();
    for second in 0..1_800 {
        let leases = world.pull(&hot, 1).await;
        if let Some(lease) = leases.first() {
            given.push(second);
            let offers = vec![lease.claim()];
            world.store.return_offers(offers).await.expect("it runs");
        }
        world.clock.advance(Duration::from_secs(1)).await;
    }
    let gaps: Vec<i32> = given.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps[..8], [1, 1, 1, 2, 4, 8, 16, 32], "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 300), "{gaps:?}");
    assert!(
        *given.last().expect("some") > 1_400,
        "it was shut out: {given:?}"
    );
    let charged = "select max(charged_attempts) from jobs";
    assert_eq!(world.db.text(charged).await, "0");
}
