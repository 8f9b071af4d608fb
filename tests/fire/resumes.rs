//! Resumes: how often, and what a welcome that was lost on its way costs (nothing).

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_store::tx::begin_session::{Held, ResumedLease, SessionAnswer};
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::world::TTL;
use fencepost_tests::{Device, Lease, World};

/// Reconnects holding one lease; how it goes on, if it does.
async fn reconnect(world: &World, mac: &mut Device, held: Held) -> Option<ResumedLease> {
    match world.reconnect(mac, vec![held]).await {
        SessionAnswer::Current { mut resumed, .. } => resumed.pop(),
        other => panic!("{other:?}"),
    }
}

fn rotated(lease: &Lease, resumed: &ResumedLease) -> Lease {
    let mut lease = lease.clone();
    lease.0.epoch = resumed.epoch;
    lease.0.token = resumed.token.clone();
    lease
}

#[tokio::test]
async fn ten_resumes_without_gain_and_the_next_one_is_a_loss() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let mut lease = world.in_phase(&mac, Phase::Running).await;
    for resume in 0..10 {
        let resumed = reconnect(&world, &mut mac, lease.held()).await;
        let resumed = resumed.unwrap_or_else(|| panic!("resume {resume} was refused"));
        lease = rotated(&lease, &resumed);
        // A frame that says nothing new is no gain.
        world.progress(&lease, Phase::Running).await;
        world.clock.advance(Duration::from_secs(1)).await;
    }
    assert!(reconnect(&world, &mut mac, lease.held()).await.is_none());
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "t");
}

#[tokio::test]
async fn a_gain_between_resumes_begins_the_count_anew() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let mut lease = world.in_phase(&mac, Phase::Downloading).await;
    for gain in [Phase::Running, Phase::Uploading] {
        for _ in 0..9 {
            let resumed = reconnect(&world, &mut mac, lease.held()).await;
            lease = rotated(&lease, &resumed.expect("it goes on"));
        }
        world.progress(&lease, gain).await;
    }
    world.win(&lease).await;
}

#[tokio::test]
async fn a_lost_welcome_costs_nothing_and_wins_nothing() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let lost = reconnect(&world, &mut mac, lease.held())
        .await
        .expect("it goes on");
    assert_eq!(lost.remaining, TTL);
    world.clock.advance(Duration::from_secs(5)).await;

    // The replaced pair is good for nothing but a hello.
    let before = world.db.rows().await;
    let progress = world.progress(&lease, Phase::Uploading).await;
    assert!(
        matches!(progress, ProgressAnswer::Refused(_)),
        "{progress:?}"
    );
    let commit = world.commit(&lease).await;
    assert!(matches!(commit, CommitAnswer::Refused(_)), "{commit:?}");
    for end in [lease.fail(FailureCode::RunnerFailed), lease.release()] {
        let answer = world.end(end).await;
        assert!(matches!(answer, AgentEndAnswer::Refused(_)), "{answer:?}");
    }
    assert_eq!(world.db.rows().await, before);

    // In a hello it is rotated once more, with the expiry of the first time.
    let again = reconnect(&world, &mut mac, lease.held())
        .await
        .expect("it goes on");
    assert_eq!(again.remaining + Duration::from_secs(5), TTL);
    assert!(again.epoch > lost.epoch, "an epoch was given out twice");
    assert_ne!(again.token.digest(), lost.token.digest());
    let (lost, newest) = (rotated(&lease, &lost), rotated(&lease, &again));
    let progress = world.progress(&lost, Phase::Uploading).await;
    assert!(
        matches!(progress, ProgressAnswer::Refused(_)),
        "{progress:?}"
    );
    let progress = world.progress(&newest, Phase::Uploading).await;
    assert!(
        matches!(progress, ProgressAnswer::Renewed(_)),
        "{progress:?}"
    );

    // The new epoch was presented: the replaced pair is dead in a hello too.
    assert!(reconnect(&world, &mut mac, lease.held()).await.is_none());
    assert_eq!(world.attempt_column(lease.attempt, "status").await, "lost");
}

#[tokio::test]
async fn a_welcome_that_is_lost_again_and_again_does_not_outlive_the_lease() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let mut elapsed = 0;
    while reconnect(&world, &mut mac, lease.held()).await.is_some() {
        world.clock.advance(Duration::from_secs(1)).await;
        elapsed += 1;
        assert!(elapsed <= TTL.as_secs(), "it is kept for ever");
    }
    assert_eq!(elapsed, TTL.as_secs());
    assert_eq!(world.statuses(&lease).await, "queued, lost");
}
