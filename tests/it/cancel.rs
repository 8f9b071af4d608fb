//! The buyer cancels: at once, or as soon as the attempt has stopped; never a success after it.

use std::time::Duration;

use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::JobId;
use fencepost_domain::job::JobStatus;
use fencepost_domain::verification::Verdict;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_tests::world::{foreign_token, good};
use fencepost_tests::{Lease, World};

#[tokio::test]
async fn a_queued_job_is_cancelled_at_once() {
    let world = World::new().await;
    let job = world.submit().await;
    let cancelled = world.cancel(job).await;
    assert_eq!(
        (cancelled.status, cancelled.changed),
        (JobStatus::Cancelled, true)
    );
    assert!(cancelled.ended.is_none() && cancelled.stopping.is_none());
    assert_eq!(world.job_column(job, "status").await, "cancelled");
    assert_eq!(world.postings(job).await, "hold 6000, release 6000");
    assert_eq!(world.events(job).await, "job.cancelled");
}

#[tokio::test]
async fn a_job_that_waits_for_its_delay_is_cancelled_at_once() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.end(lease.fail(FailureCode::DeviceFault)).await;
    assert_eq!(world.cancel(lease.job).await.status, JobStatus::Cancelled);
}

#[tokio::test]
async fn an_offer_that_nobody_accepted_is_ended_together_with_its_job() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world.submit().await;
    let lease = world.lease(&mac).await;
    let cancelled = world.cancel(job).await;
    let ended = cancelled.ended.expect("the offer is over");
    assert_eq!(
        (ended.attempt(), ended.status()),
        (lease.attempt, AttemptStatus::Cancelled)
    );
    assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
    let epoch = world.attempt_column(lease.attempt, "lease_epoch").await;
    assert_eq!(epoch, "2", "the late accept would still fit");
    let answer = world.progress(&lease, Phase::Downloading).await;
    assert!(matches!(answer, ProgressAnswer::Refused(_)), "{answer:?}");
}

#[tokio::test]
async fn a_running_attempt_is_told_to_stop_and_its_lease_is_not_renewed() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let cancelled = world.cancel(lease.job).await;
    let stopping = cancelled.stopping.expect("it must be told");
    assert_eq!(
        (stopping.attempt, stopping.epoch),
        (lease.attempt, lease.epoch)
    );
    assert_eq!(world.statuses(&lease).await, "cancelling, running");
    assert_eq!(world.postings(lease.job).await, "hold 6000");
    let before = world.db.rows().await;
    world.clock.advance(Duration::from_secs(5)).await;
    let ProgressAnswer::Stop {
        reason,
        lease: left,
    } = world.progress(&lease, Phase::Uploading).await
    else {
        panic!("it was not told to stop");
    };
    assert_eq!(reason, "buyer_cancelled");
    assert_eq!(left.remaining, Duration::from_secs(55));
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn a_commit_of_a_cancelled_job_is_rejected_and_ends_everything_in_one_transaction() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.cancel(lease.job).await;
    let CommitAnswer::Final { end, replayed } = world.commit(&lease).await else {
        panic!("it was not a verdict");
    };
    assert_eq!(end.status(), AttemptStatus::Cancelled);
    assert_eq!(end.code(), Some(FailureCode::BuyerCancelled));
    assert!(!replayed);
    assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
    assert_eq!(world.postings(lease.job).await, "hold 6000, release 6000");
    assert_eq!(world.events(lease.job).await, "job.cancelled");
    assert_eq!(
        ended_by(&world, &lease).await.len(),
        1,
        "more than one transaction"
    );
    let before = world.db.rows().await;
    let again = world.commit(&lease).await;
    assert!(
        matches!(again, CommitAnswer::Final { replayed: true, .. }),
        "{again:?}"
    );
    assert_eq!(world.db.rows().await, before);
}

/// The transactions that wrote the end of job, attempt, hold and event.
async fn ended_by(world: &World, lease: &Lease) -> Vec<String> {
    let job = lease.job;
    let query = format!(
        "select xmin::text from jobs where id = '{job}'
         union select xmin::text from attempts where id = '{}'
         union select xmin::text from outbox where job_id = '{job}'
         union select xmin::text from org_accounts
         union select xmin::text from postings where job_id = '{job}' and kind <> 'hold'",
        lease.attempt
    );
    world.db.texts(&query).await
}

#[tokio::test]
async fn a_commit_of_a_cancelled_job_with_a_wrong_token_ends_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.cancel(lease.job).await;
    let before = world.db.rows().await;
    let mut commit = lease.commit();
    commit.token = foreign_token().digest();
    let answer = fencepost_tests::world::commit_on(&world.store, commit).await;
    assert!(matches!(answer, CommitAnswer::Refused(_)), "{answer:?}");
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn a_cancel_during_verification_beats_every_verdict() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let reason = || "why".to_owned();
    let verdicts = [
        good(1.0),
        Verdict::MediaRejected { reason: reason() },
        Verdict::BytesDiffer { reason: reason() },
        Verdict::Trouble { reason: reason() },
    ];
    for verdict in verdicts {
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let ticket = world.begin_verification(&lease).await;
        assert_eq!(world.cancel(lease.job).await.status, JobStatus::Cancelling);
        let settled = world.settle(&ticket, verdict).await;
        let Settled::Final(end) = settled else {
            panic!("not settled: {settled:?}")
        };
        assert_eq!(end.status(), AttemptStatus::Cancelled);
        assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
        assert_eq!(world.postings(lease.job).await, "hold 6000, release 6000");
        let again = world.commit(&lease).await;
        assert!(
            matches!(again, CommitAnswer::Final { replayed: true, .. }),
            "{again:?}"
        );
    }
}

#[tokio::test]
async fn the_slot_of_a_cancelled_attempt_is_free_only_once_it_has_ended() {
    let world = World::new().await;
    let mac = world
        .device_with("mac", 1, &["transcode.v1", "encode.h264"])
        .await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let next = world.submit().await;
    world.cancel(lease.job).await;
    assert!(
        world.pull(&mac, 1).await.is_empty(),
        "its slot is still taken"
    );
    world.commit(&lease).await;
    assert_eq!(world.lease(&mac).await.job, next);
}

#[tokio::test]
async fn a_retryable_failure_of_a_cancelled_job_does_not_queue_it_again() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for release in [false, true] {
        let lease = world.in_phase(&mac, Phase::Running).await;
        world.cancel(lease.job).await;
        let end = if release {
            lease.release()
        } else {
            lease.fail(FailureCode::UploadFailed)
        };
        let answer = world.end(end).await;
        assert!(matches!(answer, AgentEndAnswer::Final { .. }), "{answer:?}");
        assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
    }
}

#[tokio::test]
async fn stopped_ends_a_cancelled_attempt_and_says_nothing_of_any_other() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let before = world.db.rows().await;
    assert_eq!(world.end(lease.stopped()).await, AgentEndAnswer::Nothing);
    assert_eq!(world.db.rows().await, before);
    world.cancel(lease.job).await;
    let answer = world.end(lease.stopped()).await;
    assert!(
        matches!(
            answer,
            AgentEndAnswer::Final {
                replayed: false,
                ..
            }
        ),
        "{answer:?}"
    );
    assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
    let before = world.db.rows().await;
    let answer = world.end(lease.stopped()).await;
    assert!(
        matches!(answer, AgentEndAnswer::Final { replayed: true, .. }),
        "{answer:?}"
    );
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn a_cancelled_attempt_that_is_silent_ends_when_its_grace_is_over() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for committing in [false, true] {
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        if committing {
            world.begin_verification(&lease).await;
        }
        world.cancel(lease.job).await;
        world
            .clock
            .advance(Duration::from_secs(15) - Duration::from_micros(1))
            .await;
        assert!(
            world.sweep().await.ended.is_empty(),
            "before its grace was over"
        );
        world.clock.advance(Duration::from_micros(1)).await;
        world.sweep().await;
        assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
        let epoch = world.attempt_column(lease.attempt, "lease_epoch").await;
        assert_eq!(epoch, "2", "a forced end bumps the epoch");
        let late = world.commit(&lease).await;
        let CommitAnswer::Final {
            end,
            replayed: true,
        } = late
        else {
            panic!("its writer was not told: {late:?}");
        };
        assert_eq!(end.code(), Some(FailureCode::BuyerCancelled));
    }
}

#[tokio::test]
async fn a_cancelled_attempt_whose_lease_runs_out_first_is_cancelled_and_not_queued() {
    let settings = fencepost_store::StoreSettings {
        cancel_grace: fencepost_domain::duration::LeaseDuration::seconds(120),
        ..fencepost_store::StoreSettings::default()
    };
    let world = World::with(settings).await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.cancel(lease.job).await;
    world.expire(&lease).await;
    assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
    assert_eq!(world.job_column(lease.job, "charged_attempts").await, "0");
}

#[tokio::test]
async fn cancelling_again_says_that_nothing_happened_and_a_foreign_job_is_not_there() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let won = world.in_phase(&mac, Phase::Uploading).await;
    world.win(&won).await;
    let failed = world.in_phase(&mac, Phase::Uploading).await;
    world.end(failed.fail(FailureCode::InputInvalid)).await;
    let cancelled = world.submit().await;
    world.cancel(cancelled).await;
    let cancelling = world.in_phase(&mac, Phase::Running).await;
    world.cancel(cancelling.job).await;
    let before = world.db.rows().await;
    for (job, status) in [
        (won.job, JobStatus::Succeeded),
        (failed.job, JobStatus::Failed),
        (cancelled, JobStatus::Cancelled),
        (cancelling.job, JobStatus::Cancelling),
    ] {
        let again = world.cancel(job).await;
        assert_eq!((again.status, again.changed), (status, false));
    }
    assert_eq!(
        world
            .store
            .cancel_job(world.org, JobId::new())
            .await
            .unwrap(),
        None
    );
    assert_eq!(world.db.rows().await, before);
    let stranger = world.store.create_org("stranger", None).await.unwrap();
    let queued = world.submit().await;
    assert_eq!(
        world.store.cancel_job(stranger, queued).await.unwrap(),
        None
    );
    assert_eq!(world.job_column(queued, "status").await, "queued");
}

#[tokio::test]
async fn the_database_itself_refuses_a_success_after_a_cancel() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.begin_verification(&lease).await;
    world.cancel(lease.job).await;
    // Everything that a success needs, so that the arrow alone is wrong.
    let succeed = format!(
        "update attempts set status = 'succeeded', ended_at = authority_now(), lease_expires_at = null,
            check_after = null, verify_until = null where id = '{}';
         update jobs set status = 'succeeded', ended_at = authority_now(), winning_attempt_id = '{}',
            output_key = 'x', output_sha256 = decode(repeat('07', 32), 'hex'),
            output_size_bytes = 1000, output_seconds = 1 where id = '{}'",
        lease.attempt, lease.attempt, lease.job
    );
    let before = world.db.rows().await;
    assert_eq!(world.db.refusal(&succeed).await.0, "FP002");
    assert_eq!(world.db.rows().await, before);
    assert!(!JobStatus::Cancelling.can_become(JobStatus::Succeeded));
}
