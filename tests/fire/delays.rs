//! Between attempts there is a growing delay, and there is an end to them, whatever the reason.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::JobId;
use fencepost_tests::world::TTL;
use fencepost_tests::{Lease, World};

/// The seconds that a job waits from now on; 0 if it waits for nothing.
async fn delay(world: &World, job: JobId) -> f64 {
    let query = format!(
        "select coalesce(extract(epoch from wake_at - authority_now()), 0)::float8
         from jobs where id = '{job}'"
    );
    world.db.text(&query).await.parse().expect("a number")
}

/// Leases the job again and again, each time to a new device, and ends it; the delays in seconds.
async fn delays(world: &World, end: &str, code: FailureCode) -> (JobId, Vec<f64>) {
    let job = world.submit_with(|job| job.max_attempts = 10).await;
    let mut delays = Vec::new();
    for number in 1..=10 {
        let mac = world.device("mac").await;
        let lease: Lease = world.lease(&mac).await;
        assert_eq!((lease.job, lease.attempt_number), (job, number));
        world.progress(&lease, Phase::Uploading).await;
        if end == "expiry" {
            world.clock.advance(TTL).await;
            world.store.expire_due(10, &[]).await.expect("it runs");
        } else {
            world.end(lease.fail(code)).await;
        }
        if number < 10 {
            let delay = delay(world, job).await;
            delays.push(delay);
            world.clock.advance(Duration::from_secs_f64(delay)).await;
            world.store.tend_queue(10).await.expect("it runs");
        }
    }
    (job, delays)
}

#[tokio::test]
async fn every_retryable_failure_is_retried_later_and_later_and_not_for_ever() {
    let codes: Vec<FailureCode> = FailureCode::ALL
        .iter()
        .copied()
        .filter(|code| code.is_retryable() && *code != FailureCode::NoCapacity)
        .collect();
    assert_eq!(codes.len(), 6);
    for code in codes {
        let world = World::new().await;
        let (job, delays) = delays(&world, "fail", code).await;
        let expected = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0];
        assert_eq!(delays, expected, "{code:?}");
        let view = world.job(job).await;
        assert_eq!(
            (view.status.as_str(), view.charged_attempts),
            ("failed", 10)
        );
        assert_eq!(view.failure_code.as_deref(), Some(code.as_str()));
        assert_eq!(world.postings(job).await, "hold 6000, release 6000");
    }
}

#[tokio::test]
async fn the_first_loss_is_retried_at_once_and_later_ones_later_and_later() {
    let world = World::new().await;
    let (job, delays) = delays(&world, "expiry", FailureCode::LeaseExpired).await;
    let expected = [0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0];
    assert_eq!(delays, expected);
    assert_eq!(world.job_column(job, "status").await, "failed");
}

#[tokio::test]
async fn a_lease_that_is_given_back_uses_up_no_budget_and_waits_longer_if_offers_came_back() {
    let world = World::new().await;
    let job = world.submit_with(|job| job.max_attempts = 1).await;
    for _ in 0..12 {
        let mac = world.device("mac").await;
        let lease = world.lease(&mac).await;
        world.progress(&lease, Phase::Running).await;
        world.end(lease.fail(FailureCode::NoCapacity)).await;
        assert!(delay(&world, job).await >= 1.0, "no delay at all");
        world.clock.advance(Duration::from_mins(5)).await;
        world.sweep().await;
    }
    assert_eq!(world.job_column(job, "status").await, "queued");
    assert_eq!(world.job_column(job, "charged_attempts").await, "0");
}
