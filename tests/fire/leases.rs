//! Leases that end badly, over and over: whose fault it is, and that there is an end to it.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::world::{SERVICES, TTL};
use fencepost_tests::{Lease, World};

/// So long a time without a sweep says that it was us.
const LONG_GAP: Duration = Duration::from_mins(2);
/// And so long a time does not, though a lease ends in it.
const SHORT_GAP: Duration = Duration::from_secs(118);

/// A whole sweep, as the sweeper does it; whether it noticed that nobody swept for too long.
async fn whole_sweep(world: &World) -> bool {
    let store = &world.store;
    let outage = store.begin_sweep().await.expect("it runs").outage;
    let swept = store.expire_due_after(100, &SERVICES, outage).await;
    let looked_at = swept.expect("it runs").looked_at;
    store.tend_queue(100).await.expect("it runs");
    let looked_at = looked_at.expect("nobody holds a row");
    store.finish_sweep(looked_at).await.expect("it runs");
    outage.is_some()
}

#[tokio::test]
async fn leases_that_end_while_nobody_sweeps_cost_nobody_anything() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for (gap, is_ours) in [(SHORT_GAP, false), (LONG_GAP, true)] {
        let lease = world.in_phase(&mac, Phase::Running).await;
        assert_eq!(LONG_GAP, TTL * 2);
        whole_sweep(&world).await;
        // The mark is moved at most once a second.
        world.clock.advance(Duration::from_secs(2)).await;
        whole_sweep(&world).await;
        assert_eq!(world.statuses(&lease).await, "active, running");
        world.clock.advance(gap).await;
        assert_eq!(whole_sweep(&world).await, is_ours, "{gap:?}");
        assert_eq!(world.statuses(&lease).await, "queued, lost");
        let charged = world.attempt_column(lease.attempt, "charged").await;
        assert_eq!(charged, if is_ours { "f" } else { "t" });
        let spent = world.job_column(lease.job, "charged_attempts").await;
        assert_eq!(spent, if is_ours { "0" } else { "1" });
        world.cancel(lease.job).await;
    }
}

#[tokio::test]
async fn after_an_outage_of_ours_no_device_is_backed_off() {
    let world = World::new().await;
    let mac = world
        .device_with("mac", 12, &["transcode.v1", "encode.h264"])
        .await;
    world.submit_many(12).await;
    whole_sweep(&world).await;
    let leases = world.pull(&mac, 12).await;
    for lease in &leases {
        world.progress(lease, Phase::Running).await;
    }
    world.clock.advance(TTL * 3).await;
    assert!(whole_sweep(&world).await);
    assert_eq!(world.pull(&mac, 12).await.len(), 12);
    // The next loss is an ordinary one again.
    let lease = &leases[0];
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
}

#[tokio::test]
async fn a_job_that_makes_its_agent_drop_the_socket_ends_by_its_budget() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let job = world.submit().await;
    for number in 1..=3 {
        let lease = world.lease(&mac).await;
        assert_eq!((lease.job, lease.attempt_number), (job, number));
        world.progress(&lease, Phase::Downloading).await;
        // It comes back and knows of nothing.
        world.reconnect(&mut mac, Vec::new()).await;
        assert_eq!(world.attempt_column(lease.attempt, "status").await, "lost");
        world.clock.advance(Duration::from_hours(2)).await;
        world.sweep().await;
    }
    let view = world.job(job).await;
    assert_eq!((view.status.as_str(), view.charged_attempts), ("failed", 3));
    assert_eq!(world.postings(job).await, "hold 6000, release 6000");
}

#[tokio::test]
async fn a_job_that_keeps_losing_its_agent_can_be_cancelled_at_any_moment() {
    for moment in ["queued", "offered", "accepted", "lost", "delayed"] {
        let world = World::new().await;
        let mut mac = world.device("mac").await;
        let job = world.submit().await;
        if moment != "queued" {
            let lease = world.lease(&mac).await;
            if moment != "offered" {
                world.progress(&lease, Phase::Downloading).await;
            }
            if moment == "lost" || moment == "delayed" {
                world.reconnect(&mut mac, Vec::new()).await;
            }
            if moment == "delayed" {
                // The second loss is followed by a delay.
                let lease = world.lease(&mac).await;
                world.progress(&lease, Phase::Downloading).await;
                world.reconnect(&mut mac, Vec::new()).await;
                assert!(world.pull(&mac, 1).await.is_empty());
            }
        }
        world.cancel(job).await;
        if moment == "accepted" {
            world.reconnect(&mut mac, Vec::new()).await;
        }
        assert_eq!(
            world.job_column(job, "status").await,
            "cancelled",
            "{moment}"
        );
        assert_eq!(world.postings(job).await, "hold 6000, release 6000");
        assert_eq!(world.events(job).await, "job.cancelled");
        world.clock.advance(Duration::from_hours(2)).await;
        world.sweep().await;
        assert!(world.pull(&mac, 1).await.is_empty(), "{moment}");
    }
}

#[tokio::test]
async fn a_job_that_no_device_can_run_ends_at_its_deadline() {
    let world = World::new().await;
    let mac = world.device_with("mac", 4, &["noop.v1"]).await;
    let job = world
        .submit_with(|job| job.deadline = LeaseDuration::seconds(3_600))
        .await;
    world.clock.advance(Duration::from_mins(59)).await;
    world.sweep().await;
    assert!(world.pull(&mac, 1).await.is_empty());
    assert_eq!(world.job_column(job, "status").await, "queued");
    world.clock.advance(Duration::from_mins(1)).await;
    world.sweep().await;
    let view = world.job(job).await;
    assert_eq!(view.failure_code.as_deref(), Some("deadline_exceeded"));
    assert_eq!(world.postings(job).await, "hold 6000, release 6000");
}

#[tokio::test]
async fn an_agent_that_renews_for_ever_is_stopped_by_the_longest_run() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world
        .submit_with(|job| job.max_run = LeaseDuration::seconds(600))
        .await;
    for number in 1..=3 {
        let lease = world.lease(&mac).await;
        assert_eq!((lease.job, lease.attempt_number), (job, number));
        let seconds = renew_for_ever(&world, &lease).await;
        assert_eq!(seconds, 600);
        world.clock.advance(Duration::from_mins(5)).await;
        world.sweep().await;
    }
    let view = world.job(job).await;
    assert_eq!((view.status.as_str(), view.charged_attempts), ("failed", 3));
    assert_eq!(world.postings(job).await, "hold 6000, release 6000");
}

/// Renews every 20 s until it is refused; after how many seconds that was.
async fn renew_for_ever(world: &World, lease: &Lease) -> u64 {
    for seconds in (0..36_000).step_by(20) {
        match world.progress(lease, Phase::Running).await {
            ProgressAnswer::Renewed(_) => {}
            ProgressAnswer::Refused(_) => {
                world.sweep().await;
                return seconds;
            }
            other => panic!("{other:?}"),
        }
        world.clock.advance(Duration::from_secs(20)).await;
    }
    panic!("it goes on for ever");
}

#[tokio::test]
async fn a_resume_does_not_go_past_the_longest_run_either() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let change = |job: &mut fencepost_store::tx::submit_job::NewJob| {
        job.max_run = LeaseDuration::seconds(70);
    };
    let lease = world.in_phase_with(&mac, Phase::Running, change).await;
    world.clock.advance(Duration::from_secs(40)).await;
    let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(resumed[0].remaining, Duration::from_secs(30));
}
