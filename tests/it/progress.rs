//! Progress accepts, moves forward and renews; it never shortens, revives or goes back.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::fencing::FenceViolation;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer, Renewal};
use fencepost_tests::world::TTL;
use fencepost_tests::{Blocker, World};

const EXPIRED: Refusal = Refusal::Fence(FenceViolation::Expired);

fn renewed(answer: &ProgressAnswer) -> Renewal {
    match answer {
        ProgressAnswer::Renewed(renewal) => *renewal,
        other => panic!("it was not renewed: {other:?}"),
    }
}

#[tokio::test]
async fn progress_moves_the_phase_and_renews_under_the_same_epoch() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.lease(&mac).await;
    for (phase, label) in [
        (Phase::Downloading, "downloading"),
        (Phase::Running, "running"),
        (Phase::Uploading, "uploading"),
    ] {
        world.clock.advance(Duration::from_secs(5)).await;
        let renewal = renewed(&world.progress(&lease, phase).await);
        assert_eq!(renewal.expires_at, world.clock.now().await + TTL);
        assert_eq!(renewal.remaining, TTL);
        assert_eq!(world.statuses(&lease).await, format!("active, {label}"));
    }
    assert_eq!(
        world.attempt_column(lease.attempt, "lease_epoch").await,
        "1"
    );
    assert_eq!(world.attempt_column(lease.attempt, "percent").await, "50");
}

#[tokio::test]
async fn the_first_progress_accepts_the_offer_and_a_bare_accept_does_too() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for phase in [None, Some(Phase::Running)] {
        world.submit().await;
        let lease = world.lease(&mac).await;
        assert_eq!(world.attempt_column(lease.attempt, "accepted_at").await, "");
        let accept = Progress {
            claim: lease.claim(),
            phase,
            percent: None,
            detail: None,
        };
        let answer = world
            .store
            .record_progress(vec![accept])
            .await
            .unwrap()
            .remove(0);
        assert_eq!(renewed(&answer).remaining, TTL);
        assert_ne!(world.attempt_column(lease.attempt, "accepted_at").await, "");
    }
}

#[tokio::test]
async fn a_phase_never_goes_back_though_the_frame_still_renews() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.clock.advance(Duration::from_secs(5)).await;
    let renewal = renewed(&world.progress(&lease, Phase::Downloading).await);
    assert_eq!(renewal.expires_at, world.clock.now().await + TTL);
    assert_eq!(world.statuses(&lease).await, "active, uploading");
}

#[tokio::test]
async fn progress_never_shortens_a_lease() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let settings = fencepost_store::StoreSettings {
        lease_ttl: LeaseDuration::seconds(1),
        ..fencepost_store::StoreSettings::default()
    };
    let hasty = world.db.open_store(settings);
    let progress = vec![lease.progress(Phase::Running)];
    let answer = hasty.record_progress(progress).await.unwrap().remove(0);
    assert_eq!(renewed(&answer).remaining, TTL);
}

#[tokio::test]
async fn no_renewal_goes_past_the_longest_run() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let short = |job: &mut fencepost_store::tx::submit_job::NewJob| {
        job.max_run = LeaseDuration::seconds(90);
    };
    let lease = world.in_phase_with(&mac, Phase::Running, short).await;
    world.clock.advance(Duration::from_secs(50)).await;
    let renewal = renewed(&world.progress(&lease, Phase::Running).await);
    assert_eq!(renewal.remaining, Duration::from_secs(40));
    world.clock.advance(Duration::from_secs(40)).await;
    let answer = world.progress(&lease, Phase::Running).await;
    assert_eq!(answer, ProgressAnswer::Refused(EXPIRED));
}

#[tokio::test]
async fn progress_does_not_revive_an_expired_lease_that_nobody_has_reclaimed() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.clock.advance(TTL + Duration::from_secs(1)).await;
    let before = world.db.rows().await;
    let answer = world.progress(&lease, Phase::Running).await;
    assert_eq!(answer, ProgressAnswer::Refused(EXPIRED));
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn nobody_waits_for_anothers_locked_row_in_a_batch() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let (stuck, free) = (
        world.in_phase(&mac, Phase::Running).await,
        world.in_phase(&mac, Phase::Running).await,
    );
    let blocker = Blocker::on_attempt(&world.db, stuck.attempt).await;
    world.clock.advance(Duration::from_secs(5)).await;
    let batch = vec![
        stuck.progress(Phase::Uploading),
        free.progress(Phase::Uploading),
    ];
    let store = world.store.clone();
    let waiting = tokio::spawn(async move { store.record_progress(batch).await });
    blocker.until_waiting(&world.db, 1).await;
    assert_eq!(world.statuses(&free).await, "active, uploading");
    assert_eq!(world.statuses(&stuck).await, "active, running");
    blocker.release().await;
    let answers = waiting.await.unwrap().unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, ProgressAnswer::Renewed(_)))
    );
    assert_eq!(world.statuses(&stuck).await, "active, uploading");
}

#[tokio::test]
async fn a_renewal_that_waited_for_a_lock_counts_from_when_it_got_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let blocker = Blocker::on_attempt(&world.db, lease.attempt).await;
    let (store, progress) = (world.store.clone(), vec![lease.progress(Phase::Running)]);
    let waiting = tokio::spawn(async move { store.record_progress(progress).await });
    blocker.until_waiting(&world.db, 1).await;
    world.clock.advance(Duration::from_secs(20)).await;
    blocker.release().await;
    let answer = waiting.await.unwrap().unwrap().remove(0);
    assert_eq!(renewed(&answer).expires_at, world.clock.now().await + TTL);
}

/// Each operation of an agent is held up by a transaction that changes nothing, until its lease has
/// run out: Postgres does not look at the statement again, so it must read the clock after the lock.
#[tokio::test]
async fn whoever_waited_for_a_lock_past_its_own_expiry_is_refused() {
    for operation in ["progress", "commit", "fail", "release"] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let blocker = Blocker::on_attempt(&world.db, lease.attempt).await;
        let (store, asking) = (world.store.clone(), lease.clone());
        let waiting = tokio::spawn(async move { present(&store, &asking, operation).await });
        blocker.until_waiting(&world.db, 1).await;
        world.clock.advance(TTL).await;
        let before = world.db.rows().await;
        blocker.release().await;
        assert_eq!(waiting.await.unwrap(), Some(EXPIRED), "{operation}");
        assert_eq!(world.db.rows().await, before, "{operation}");
    }
}

/// The same at the last instant: held up in COMMIT itself, after everything had been judged.
#[tokio::test]
async fn whoever_is_held_up_at_commit_past_its_own_expiry_is_rolled_back_and_refused() {
    for operation in ["progress", "commit", "fail", "release"] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        world.clock.advance(Duration::from_secs(1)).await;
        Blocker::make_commits_wait(&world.db, "attempts", "update").await;
        let blocker = Blocker::on_commit(&world.db).await;
        let before = world.db.rows().await;
        let (store, asking) = (world.store.clone(), lease.clone());
        let waiting = tokio::spawn(async move { present(&store, &asking, operation).await });
        blocker.until_waiting(&world.db, 1).await;
        world.clock.advance(TTL).await;
        blocker.release().await;
        let refused = waiting.await.unwrap();
        if operation == "release" {
            // A release makes the attempt lost, which claims nothing: it may be late.
            assert_eq!(refused, None);
        } else {
            assert_eq!(refused, Some(EXPIRED), "{operation}");
            assert_eq!(world.db.rows().await, before, "{operation}");
        }
    }
}

#[tokio::test]
async fn at_one_second_after_its_end_every_operation_with_the_right_lease_is_refused_as_expired() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    for after in [Duration::ZERO, Duration::from_secs(1)] {
        world
            .clock
            .advance(if after.is_zero() { TTL } else { after })
            .await;
        let before = world.db.rows().await;
        for operation in ["progress", "commit", "fail", "release"] {
            let refused = present(&world.store, &lease, operation).await;
            assert_eq!(
                refused,
                Some(EXPIRED),
                "{operation} {after:?} after the end"
            );
        }
        assert_eq!(world.db.rows().await, before);
    }
}

/// Presents a lease; what it was refused with, or `None`.
async fn present(
    store: &fencepost_store::Store,
    lease: &fencepost_tests::Lease,
    operation: &str,
) -> Option<Refusal> {
    if operation == "progress" {
        let progress = vec![lease.progress(Phase::Uploading)];
        return match store
            .record_progress(progress)
            .await
            .expect("it has an answer")
            .remove(0)
        {
            ProgressAnswer::Refused(refusal) => Some(refusal),
            _ => None,
        };
    }
    if operation == "commit" {
        return match fencepost_tests::world::commit_on(store, lease.commit()).await {
            CommitAnswer::Refused(refusal) => Some(refusal),
            _ => None,
        };
    }
    let end = match operation {
        "fail" => lease.fail(fencepost_domain::failure::FailureCode::UploadFailed),
        _ => lease.release(),
    };
    match store
        .end_by_agent(vec![end])
        .await
        .expect("it has an answer")
        .remove(0)
    {
        AgentEndAnswer::Refused(refusal) => Some(refusal),
        _ => None,
    }
}
