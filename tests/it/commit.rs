//! The two halves of a commit, what is stored of it, and what the verdict makes of it.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::FenceViolation;
use fencepost_domain::verification::{MAX_VERIFICATIONS, Verdict};
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::views::OutputView;
use fencepost_tests::world::{TTL, commit_on, good, settlement};
use fencepost_tests::{Lease, World};

#[tokio::test]
async fn a_commit_makes_the_job_verifying_and_its_good_verdict_both_succeeded() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    assert_eq!(world.statuses(&lease).await, "verifying, committing");
    assert_eq!(ticket.declared, lease.commit().output);
    let output = world.store.output(world.org, lease.job).await.unwrap();
    assert!(matches!(output, OutputView::NotReady { .. }), "{output:?}");
    let settled = world.settle(&ticket, good(61.0)).await;
    let Settled::Final(end) = settled else {
        panic!("not settled: {settled:?}")
    };
    assert_eq!(
        (end.attempt(), end.job(), end.device()),
        (lease.attempt, lease.job, mac.id)
    );
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
    assert_eq!(world.events(lease.job).await, "job.succeeded");
    let output = world.store.output(world.org, lease.job).await.unwrap();
    let OutputView::Ready { object_key, .. } = output else {
        panic!("no output: {output:?}")
    };
    assert_eq!(object_key, settlement(&ticket, good(61.0)).copy_key);
}

#[tokio::test]
async fn a_commit_before_uploading_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for phase in [Phase::Leased, Phase::Downloading, Phase::Running] {
        let lease = world.in_phase(&mac, phase).await;
        let before = world.db.rows().await;
        let status = phase.into();
        let refusal = Refusal::Fence(FenceViolation::WrongStatus { status });
        assert_eq!(refused(&world.commit(&lease).await), Some(refusal));
        assert_eq!(world.db.rows().await, before);
    }
}

fn refused(answer: &CommitAnswer) -> Option<Refusal> {
    match answer {
        CommitAnswer::Refused(refusal) => Some(*refusal),
        _ => None,
    }
}

#[tokio::test]
async fn a_commit_after_the_lease_publishes_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.clock.advance(TTL).await;
    let before = world.db.rows().await;
    let expired = Refusal::Fence(FenceViolation::Expired);
    assert_eq!(refused(&world.commit(&lease).await), Some(expired));
    assert_eq!(world.db.rows().await, before);
    let output = world.store.output(world.org, lease.job).await.unwrap();
    assert!(matches!(output, OutputView::NotReady { .. }));
}

#[tokio::test]
async fn the_same_commit_again_is_answered_from_what_is_stored_and_writes_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    let before = world.db.rows().await;
    let answer = world.commit(&lease).await;
    assert!(matches!(answer, CommitAnswer::StillVerifying), "{answer:?}");
    assert_eq!(world.db.rows().await, before);
    let settled = world.settle(&ticket, good(1.0)).await;
    let before = world.db.rows().await;
    world.clock.advance(TTL * 3).await;
    let CommitAnswer::Final { end, replayed } = world.commit(&lease).await else {
        panic!("the repeat was not recognised");
    };
    assert!(replayed);
    assert_eq!(Settled::Final(end), settled);
    // The verdict again, too.
    assert_eq!(world.settle(&ticket, good(1.0)).await, settled);
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn another_commit_by_the_same_writer_is_refused_before_and_after_the_end() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    for settled in [false, true] {
        if settled {
            world.settle(&ticket, good(1.0)).await;
        }
        let before = world.db.rows().await;
        for change in ["digest", "size"] {
            let mut other = lease.commit();
            match change {
                "digest" => other.output.sha256 = [8; 32],
                _ => other.output.size_bytes += 1,
            }
            let answer = commit_on(&world.store, other).await;
            assert_eq!(
                refused(&answer),
                Some(Refusal::OtherContent),
                "other {change}"
            );
        }
        for end in [lease.fail(FailureCode::UploadFailed), lease.release()] {
            let answer = world.end(end).await;
            assert_eq!(answer, AgentEndAnswer::Refused(Refusal::OtherContent));
        }
        assert_eq!(world.db.rows().await, before);
    }
}

#[tokio::test]
async fn a_commit_of_an_object_that_was_not_granted_to_the_attempt_is_refused() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let neighbour = world.in_phase(&mac, Phase::Uploading).await;
    let before = world.db.rows().await;
    let mut foreign = lease.commit();
    foreign.output.object_key.clone_from(&neighbour.output_key);
    let answer = commit_on(&world.store, foreign).await;
    assert_eq!(refused(&answer), Some(Refusal::UngrantedObject));
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn a_rejected_medium_is_not_retried_and_other_bytes_are() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let reason = || "this is why".to_owned();
    let cases = [
        (
            Verdict::MediaRejected { reason: reason() },
            "failed",
            "verification_failed",
        ),
        (
            Verdict::BytesDiffer { reason: reason() },
            "queued",
            "upload_failed",
        ),
    ];
    for (verdict, job, code) in cases {
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let ticket = world.begin_verification(&lease).await;
        world.settle(&ticket, verdict).await;
        assert_eq!(world.statuses(&lease).await, format!("{job}, failed"));
        assert_eq!(
            world.attempt_column(lease.attempt, "failure_code").await,
            code
        );
        let posted = if job == "failed" {
            "hold 6000, release 6000"
        } else {
            "hold 6000"
        };
        assert_eq!(world.postings(lease.job).await, posted);
    }
}

#[tokio::test]
async fn bytes_that_keep_differing_use_up_the_budget() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world
        .in_phase_with(&mac, Phase::Uploading, |job| job.max_attempts = 1)
        .await;
    let ticket = world.begin_verification(&lease).await;
    world
        .settle(
            &ticket,
            Verdict::BytesDiffer {
                reason: "short".to_owned(),
            },
        )
        .await;
    assert_eq!(world.statuses(&lease).await, "failed, failed");
    assert_eq!(
        world.job(lease.job).await.failure_code.as_deref(),
        Some("upload_failed")
    );
}

#[tokio::test]
async fn our_own_trouble_is_tried_again_until_the_bound_and_then_the_attempt_is() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let mut ticket = world.begin_verification(&lease).await;
    let trouble = || Verdict::Trouble {
        reason: "the disk is away".to_owned(),
    };
    for epoch in 1..MAX_VERIFICATIONS {
        assert_eq!(ticket.verification_epoch, epoch);
        assert_eq!(world.settle(&ticket, trouble()).await, Settled::Later);
        assert_eq!(world.statuses(&lease).await, "verifying, committing");
        assert!(world.sweep().await.verify.is_empty(), "tried again at once");
        // Each pause is four times as long as the one before.
        let pause = [5, 20, 80, 320][usize::try_from(epoch - 1).unwrap()];
        world.clock.advance(Duration::from_secs(pause - 1)).await;
        assert!(world.sweep().await.verify.is_empty(), "tried too early");
        world.clock.advance(Duration::from_secs(1)).await;
        ticket = world
            .sweep()
            .await
            .verify
            .pop()
            .expect("it is picked up again");
    }
    let settled = world.settle(&ticket, trouble()).await;
    assert!(matches!(settled, Settled::Final(_)), "{settled:?}");
    assert_eq!(world.statuses(&lease).await, "queued, failed");
    assert_eq!(
        world.attempt_column(lease.attempt, "failure_code").await,
        "internal_error"
    );
}

#[tokio::test]
async fn two_attempts_of_one_job_write_different_objects_and_the_lost_one_no_more() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lost = world.in_phase(&mac, Phase::Uploading).await;
    let place = |lease: &Lease| {
        world
            .store
            .place_attempt_output(lease.attempt, Box::new(|| Ok(())))
    };
    assert_eq!(place(&lost).await.unwrap(), Placed::Done);
    world.clock.advance(TTL).await;
    let unswept = place(&lost).await.unwrap();
    assert_eq!(unswept, Placed::Closed, "written after the lease");
    world.sweep().await;
    let next = world.lease(&mac).await;
    world.progress(&next, Phase::Uploading).await;
    assert_eq!(next.job, lost.job);
    assert_ne!(next.output_key, lost.output_key);
    assert_eq!(place(&lost).await.unwrap(), Placed::Closed);
    assert_eq!(place(&next).await.unwrap(), Placed::Done);
    let output = world.store.output(world.org, next.job).await.unwrap();
    assert!(
        matches!(output, OutputView::NotReady { .. }),
        "a lost attempt's object is served"
    );
    world.win(&next).await;
    assert_eq!(
        place(&next).await.unwrap(),
        Placed::Closed,
        "written after the commit"
    );
}

#[tokio::test]
async fn a_verification_slower_than_the_lease_still_wins_and_starts_no_second_attempt() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    for _ in 0..6 {
        world.clock.advance(Duration::from_secs(30)).await;
        let renewal = vec![(ticket.attempt, ticket.verification_epoch)];
        world.store.renew_verifications(renewal).await.unwrap();
        let report = world.sweep().await;
        assert!(
            report.ended.is_empty() && report.verify.is_empty(),
            "{report:?}"
        );
        assert!(world.pull(&mac, 1).await.is_empty());
        let answer = world.progress(&lease, Phase::Uploading).await;
        assert!(matches!(answer, ProgressAnswer::Verifying(_)), "{answer:?}");
    }
    world.settle(&ticket, good(1.0)).await;
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
    assert_eq!(world.job(lease.job).await.attempts, 1);
}

#[tokio::test]
async fn a_verification_that_was_taken_over_settles_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let slow = world.begin_verification(&lease).await;
    world.clock.advance(TTL).await;
    let unknown = world.store.expire_due(100, &["other.v1"]).await.unwrap();
    assert!(
        unknown.verify.is_empty(),
        "picked up for a service it does not know"
    );
    world.clock.advance(TTL).await;
    let quick = world.sweep().await.verify.pop().expect("it is taken over");
    assert_eq!(quick.verification_epoch, slow.verification_epoch + 1);
    let before = world.db.rows().await;
    let trouble = Verdict::Trouble {
        reason: "gone".to_owned(),
    };
    for verdict in [trouble, good(1.0)] {
        assert_eq!(world.settle(&slow, verdict).await, Settled::TakenOver);
    }
    assert_eq!(world.db.rows().await, before);
    let settled = world.settle(&quick, good(1.0)).await;
    let late = world
        .settle(
            &slow,
            Verdict::MediaRejected {
                reason: "late".to_owned(),
            },
        )
        .await;
    assert_eq!(late, settled, "the slow one learns what became of it");
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
}

#[tokio::test]
async fn whatever_a_lost_attempt_still_sends_changes_nothing_of_its_successors_success() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    let lost = world.in_phase(&one, Phase::Uploading).await;
    world.expire(&lost).await;
    let winner = world.lease(&two).await;
    world.progress(&winner, Phase::Uploading).await;
    for over in [false, true] {
        if over {
            world.win(&winner).await;
        }
        let before = world.db.rows().await;
        assert!(refused(&world.commit(&lost).await).is_some());
        let answer = world.progress(&lost, Phase::Uploading).await;
        assert!(matches!(answer, ProgressAnswer::Refused(_)), "{answer:?}");
        for end in [lost.fail(FailureCode::RunnerFailed), lost.release()] {
            let answer = world.end(end).await;
            assert!(matches!(answer, AgentEndAnswer::Refused(_)), "{answer:?}");
        }
        // It hears how its attempt ended, and nothing comes of it.
        let answer = world.end(lost.stopped()).await;
        assert!(
            matches!(answer, AgentEndAnswer::Final { replayed: true, .. }),
            "{answer:?}"
        );
        assert!(
            world
                .store
                .return_offers(vec![lost.claim()])
                .await
                .unwrap()
                .len()
                == 1
        );
        assert_eq!(world.db.rows().await, before);
    }
    assert_eq!(world.statuses(&winner).await, "succeeded, succeeded");
    assert_eq!(world.events(winner.job).await, "job.succeeded");
}

#[tokio::test]
async fn one_call_may_hold_the_same_commit_twice() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let other = world.in_phase(&mac, Phase::Uploading).await;
    let commits = vec![lease.commit(), other.commit(), lease.commit()];
    let answers = world.store.begin_verification(commits).await.unwrap();
    assert!(matches!(answers[0], CommitAnswer::Verify(_)), "{answers:?}");
    assert!(matches!(answers[1], CommitAnswer::Verify(_)), "{answers:?}");
    assert!(
        matches!(answers[2], CommitAnswer::StillVerifying),
        "{answers:?}"
    );
}
