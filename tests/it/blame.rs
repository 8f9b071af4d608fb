//! What a device is blamed for, who is told of it, and how it is forgiven.

use fencepost_domain::failure::FailureCode;
use fencepost_domain::matcher::lane;
use fencepost_domain::service::Capability;
use fencepost_domain::waiting::Waiting;
use fencepost_store::tx::submit_job::NewJob;
use fencepost_tests::World;
use fencepost_tests::lease::Device;

use crate::input_urls::{device, elsewhere};

/// Jobs of one attempt each, whose only device fails them with this, one after the other.
async fn fail_ten(world: &World, mac: &Device, code: FailureCode, change: impl Fn(&mut NewJob)) {
    for _ in 0..10 {
        world
            .submit_with(|job: &mut NewJob| {
                change(job);
                job.max_attempts = 1;
            })
            .await;
        let lease = world.lease(mac).await;
        world.end(lease.fail(code)).await;
        // Longer than it is backed off, and much shorter than a quarantine.
        world.clock.advance(std::time::Duration::from_mins(2)).await;
    }
}

/// Why a job of this device's lane waits, and what its operator reads.
async fn seen(world: &World, mac: &Device) -> (Option<Waiting>, Option<bool>) {
    let words = ["transcode.v1", "encode.h264"];
    let words = words.into_iter().map(Capability::new).collect();
    let asked = vec![(world.org, lane(&words))];
    let waiting = world.store.waiting(asked).await.expect("it is read");
    let devices = world.store.devices().await.expect("they are read");
    let device = devices.into_iter().find(|one| one.id == mac.id.0);
    let closed = device.expect("it is listed").closed_until;
    (
        waiting[0].clone(),
        closed.map(|(_, is_quarantine)| is_quarantine),
    )
}

#[tokio::test]
async fn a_host_that_a_buyer_chose_closes_no_device_whatever_becomes_of_its_downloads() {
    let world = World::new().await;
    let mac = device(&world).await;
    fail_ten(&world, &mac, FailureCode::DownloadFailed, elsewhere).await;
    assert_eq!(seen(&world, &mac).await, (None, None));
    world.submit().await;
    world.lease(&mac).await;
}

#[tokio::test]
async fn ten_downloads_from_us_that_failed_close_a_device_and_everybody_concerned_can_see_it() {
    let world = World::new().await;
    let mac = device(&world).await;
    fail_ten(&world, &mac, FailureCode::DownloadFailed, |_| ()).await;
    world.submit().await;
    assert_eq!(world.pull(&mac, 1).await.len(), 0, "it is closed");
    assert_eq!(
        seen(&world, &mac).await,
        (Some(Waiting::Paused), Some(true))
    );
    // Another device that is well, and nothing stands in the way.
    let other = world.device("other").await;
    assert_eq!(seen(&world, &mac).await, (None, Some(true)));
    drop(other);
}

#[tokio::test]
async fn a_device_that_is_enabled_again_is_forgiven() {
    let world = World::new().await;
    let mac = device(&world).await;
    fail_ten(&world, &mac, FailureCode::DeviceFault, |_| ()).await;
    world.submit().await;
    assert_eq!(world.pull(&mac, 1).await.len(), 0, "it is closed");
    assert!(
        world
            .store
            .enable_device(mac.id)
            .await
            .expect("it is written")
    );
    assert_eq!(seen(&world, &mac).await, (None, None));
    world.lease(&mac).await;
}
