//! A clock that is behind its mark: what compares an expiry waits, everything else goes on.

use std::time::Duration;

use fencepost_domain::artifact_key::attempt_artifact;
use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::FenceViolation;
use fencepost_domain::ids::AttemptId;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal};
use fencepost_store::{FinalizedAttempt, Store, StoreSettings};
use fencepost_tests::world::{OFFER, SERVICES, TTL, foreign_token, good};
use fencepost_tests::{Blocker, Lease, World};

/// What a standby may lag.
const LAG: Duration = Duration::from_secs(70);

/// What an agent does with its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Accept,
    Renew,
    Grant,
    Event,
    Artifact,
    Place,
    Commit,
    LosingCommit,
    Fail,
    Release,
}

const ACTS: [Act; 10] = [
    Act::Accept,
    Act::Renew,
    Act::Grant,
    Act::Event,
    Act::Artifact,
    Act::Place,
    Act::Commit,
    Act::LosingCommit,
    Act::Fail,
    Act::Release,
];

/// How long the clock is to be waited for; `None` if it was done.
async fn act(store: &Store, lease: &Lease, act: Act) -> Option<Duration> {
    let refusal = match act {
        Act::Accept | Act::Renew => {
            let mut progress = lease.progress(Phase::Uploading);
            progress.phase = progress.phase.filter(|_| act == Act::Renew);
            match store
                .record_progress(vec![progress])
                .await
                .expect("it has an answer")
                .remove(0)
            {
                ProgressAnswer::Refused(refusal) => Some(refusal),
                ProgressAnswer::Renewed(_) => None,
                other => panic!("{other:?}"),
            }
        }
        Act::Grant => store
            .grant_objects(lease.claim())
            .await
            .expect("it has an answer")
            .err(),
        Act::Event => {
            let answers = store.write_events(vec![lease.event(0)]).await;
            written(answers.expect("it has an answer").remove(0))
        }
        Act::Artifact => {
            let key = attempt_artifact(lease.job, lease.attempt, lease.epoch, "log");
            let artifact = lease.artifact("log", &key);
            let answers = store.write_artifacts(vec![artifact]).await;
            written(answers.expect("it has an answer").remove(0))
        }
        Act::Place => return place(store, lease.attempt).await,
        Act::Commit | Act::LosingCommit => {
            let answers = store.begin_verification(vec![lease.commit()]).await;
            match answers.expect("it has an answer").remove(0) {
                CommitAnswer::Refused(refusal) => Some(refusal),
                CommitAnswer::Verify(_)
                | CommitAnswer::Final {
                    replayed: false, ..
                } => None,
                other => panic!("{other:?}"),
            }
        }
        Act::Fail | Act::Release => {
            let end = match act {
                Act::Fail => lease.fail(FailureCode::UploadFailed),
                _ => lease.release(),
            };
            match store
                .end_by_agent(vec![end])
                .await
                .expect("it has an answer")
                .remove(0)
            {
                AgentEndAnswer::Refused(refusal) => Some(refusal),
                AgentEndAnswer::Final {
                    replayed: false, ..
                } => None,
                other => panic!("{other:?}"),
            }
        }
    };
    refusal.map(|refusal| match refusal {
        Refusal::Fence(FenceViolation::ClockRegressed { by }) => by,
        other => panic!("{act:?} was refused for another reason: {other}"),
    })
}

fn written(answer: JournalAnswer) -> Option<Refusal> {
    match answer {
        JournalAnswer::Stored {
            replayed: false, ..
        } => None,
        JournalAnswer::Refused(JournalRefusal::Lease(refusal)) => Some(refusal),
        other => panic!("{other:?}"),
    }
}

async fn place(store: &Store, attempt: AttemptId) -> Option<Duration> {
    let placed = store.place_attempt_output(attempt, Box::new(|| Ok(())));
    match placed.await.expect("it has an answer") {
        Placed::Done => None,
        Placed::ClockRegressed(by) => Some(by),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_clock_behind_its_mark_alone_makes_every_act_of_a_holder_wait_and_changes_nothing() {
    for by in [Duration::from_micros(1), LAG] {
        for what in ACTS {
            let world = World::new().await;
            let mac = world.device("mac").await;
            let lease = if what == Act::Accept {
                world.submit().await;
                world.lease(&mac).await
            } else {
                world.in_phase(&mac, Phase::Uploading).await
            };
            if what == Act::Artifact {
                world.grant_artifact(&lease, "log").await;
            }
            if what == Act::LosingCommit {
                world.cancel(lease.job).await;
            }
            world.mark().await;
            world.clock.advance(Duration::from_secs(2)).await;
            world.mark().await;
            world.clock.go_back(by).await;
            let before = world.db.rows().await;
            assert_eq!(act(&world.store, &lease, what).await, Some(by), "{what:?}");
            // A process that was started later knows of it too.
            let other = world.db.open_store(StoreSettings::default());
            assert_eq!(act(&other, &lease, what).await, Some(by), "{what:?}");
            assert_eq!(world.db.rows().await, before, "{what:?} wrote something");
            world.clock.advance(by).await;
            assert_eq!(act(&world.store, &lease, what).await, None, "{what:?}");
        }
    }
}

#[tokio::test]
async fn nobody_who_is_wrong_anyway_learns_anything_of_the_clock() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.regress(LAG).await;
    let mut stale = lease.clone();
    stale.0.epoch = 7;
    let mut forged = lease.clone();
    forged.0.token = foreign_token();
    let answer = world.progress(&stale, Phase::Uploading).await;
    let stale_epoch = Refusal::Fence(FenceViolation::StaleEpoch);
    assert_eq!(answer, ProgressAnswer::Refused(stale_epoch));
    let wrong_token = Refusal::Fence(FenceViolation::WrongToken);
    let answer = world.commit(&forged).await;
    assert!(
        matches!(answer, CommitAnswer::Refused(refusal) if refusal == wrong_token),
        "{answer:?}"
    );
    let answer = world.end(forged.release()).await;
    assert_eq!(answer, AgentEndAnswer::Refused(wrong_token));
}

#[tokio::test]
async fn nothing_is_leased_until_the_clock_has_caught_up() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    world.regress(LAG).await;
    let before = world.db.rows().await;
    let round = async || {
        let round = world
            .store
            .lease_round(vec![mac.pull(1)], Cursor::default());
        round.await.unwrap()
    };
    let refused = round().await;
    assert_eq!(refused.clock_regressed_by, Some(LAG));
    assert!(refused.leased.is_empty());
    assert_eq!(world.db.rows().await, before);
    world.clock.advance(LAG).await;
    let leased = round().await;
    assert_eq!(leased.clock_regressed_by, None);
    assert_eq!(leased.leased.len(), 1);
}

#[tokio::test]
async fn a_hello_waits_for_the_clock_and_loses_nothing() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let listed = world.in_phase(&mac, Phase::Running).await;
    let forgotten = world.in_phase(&mac, Phase::Running).await;
    world.regress(LAG).await;
    let (_, session) = world.store.mint_session(&mac.token).await.unwrap().unwrap();
    let before = world.db.rows().await;
    mac.session = session;
    let hello = || {
        let hello = world.hello(&mac, vec![listed.held()]);
        world.store.begin_session(hello)
    };
    let answer = hello().await.unwrap();
    assert!(
        matches!(answer, SessionAnswer::ClockRegressed(by) if by == LAG),
        "{answer:?}"
    );
    assert_eq!(world.db.rows().await, before);
    world.clock.advance(LAG).await;
    let answer = hello().await.unwrap();
    let SessionAnswer::Current { resumed, ended, .. } = answer else {
        panic!("{answer:?}")
    };
    assert!(resumed.is_empty(), "the lease ended 10 seconds ago");
    assert_eq!(ended.len(), 2);
    assert_eq!(world.statuses(&forgotten).await, "queued, lost");
}

#[tokio::test]
async fn a_hello_after_a_short_step_back_resumes_what_it_lists() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let step = Duration::from_secs(5);
    world.regress(step).await;
    let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
    assert!(matches!(answer, SessionAnswer::ClockRegressed(_)));
    world.clock.advance(step).await;
    let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(resumed[0].epoch, 2);
    assert_eq!(resumed[0].remaining, TTL);
}

#[tokio::test]
async fn no_sweep_ends_returns_forces_or_picks_up_anything_until_the_clock_has_caught_up() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let expired = world.in_phase(&mac, Phase::Running).await;
    let cancelling = world.in_phase(&mac, Phase::Running).await;
    world.cancel(cancelling.job).await;
    let verified = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&verified).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    // All are over, also by the clock as it is, which is behind nevertheless.
    world.clock.advance(TTL).await;
    world.regress(LAG).await;
    let before = world.db.rows().await;
    let report = world.store.expire_due(100, &SERVICES).await.unwrap();
    assert_eq!(report.clock_regressed_by, Some(LAG));
    assert!(report.ended.is_empty() && report.verify.is_empty() && report.due == 0);
    let mine = vec![(verified.attempt, ticket.verification_epoch)];
    world.store.renew_verifications(mine).await.unwrap();
    assert_eq!(world.db.rows().await, before);
    world.clock.advance(LAG).await;
    let report = world.store.expire_due(100, &SERVICES).await.unwrap();
    let mut ended: Vec<_> = report.ended.iter().map(FinalizedAttempt::attempt).collect();
    let mut due = vec![expired.attempt, cancelling.attempt, offered.attempt];
    ended.sort();
    due.sort();
    assert_eq!(ended, due);
    assert_eq!(report.verify.len(), 1);
    world.settle(&report.verify[0], good(1.0)).await;
}

#[tokio::test]
async fn stored_answers_are_given_whatever_the_clock_shows() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let won = world.in_phase(&mac, Phase::Uploading).await;
    world.win(&won).await;
    let failed = world.in_phase(&mac, Phase::Running).await;
    let fail = failed.fail(FailureCode::RunnerFailed);
    world.end(fail.clone()).await;
    let released = world.in_phase(&mac, Phase::Running).await;
    world.end(released.release()).await;
    let verifying = world.in_phase(&mac, Phase::Uploading).await;
    world.begin_verification(&verifying).await;
    let telling = world.in_phase(&mac, Phase::Running).await;
    let event = telling.event(0);
    world.event(&event).await;
    world.regress(LAG).await;
    let before = world.db.rows().await;
    let answer = world.commit(&won).await;
    assert!(
        matches!(answer, CommitAnswer::Final { replayed: true, .. }),
        "{answer:?}"
    );
    for end in [fail, released.release()] {
        let answer = world.end(end).await;
        assert!(
            matches!(answer, AgentEndAnswer::Final { replayed: true, .. }),
            "{answer:?}"
        );
    }
    let answer = world.commit(&verifying).await;
    assert!(matches!(answer, CommitAnswer::StillVerifying), "{answer:?}");
    let answer = world.progress(&verifying, Phase::Uploading).await;
    assert!(matches!(answer, ProgressAnswer::Verifying(_)), "{answer:?}");
    let told = world.event(&event).await;
    assert!(
        matches!(
            told,
            JournalAnswer::Stored {
                replayed: true,
                lease_live: true,
                ..
            }
        ),
        "{told:?}"
    );
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn cancels_go_on_and_reach_the_agent_whatever_the_clock_shows() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let running = world.in_phase(&mac, Phase::Running).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    let queued = world.submit().await;
    world.regress(LAG).await;
    assert!(world.cancel(queued).await.changed);
    assert_eq!(world.job_column(queued, "status").await, "cancelled");
    assert!(world.cancel(offered.job).await.ended.is_some());
    assert!(world.cancel(running.job).await.stopping.is_some());
    let answer = world.progress(&running, Phase::Running).await;
    assert!(matches!(answer, ProgressAnswer::Stop { .. }), "{answer:?}");
    assert_eq!(world.statuses(&running).await, "cancelling, running");
    let answer = world.end(running.stopped()).await;
    let AgentEndAnswer::Final { end, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(end.status(), AttemptStatus::Cancelled);
    assert_eq!(world.statuses(&running).await, "cancelled, cancelled");
}

#[tokio::test]
async fn jobs_are_taken_read_and_settled_and_offers_declined_whatever_the_clock_shows() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    world.regress(LAG).await;
    let job = world.submit().await;
    assert_eq!(world.job(job).await.id, job.0);
    let returned = world.store.return_offers(vec![offered.claim()]).await;
    assert_eq!(returned.unwrap().len(), 1);
    let settled = world.settle(&ticket, good(30.0)).await;
    assert!(matches!(settled, Settled::Final(_)), "{settled:?}");
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
}

#[tokio::test]
async fn a_standby_that_lags_70_seconds_neither_stretches_a_lease_nor_costs_any_work() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.clock.advance(LAG).await;
    let working = world.in_phase(&mac, Phase::Running).await;
    let gone = world.in_phase(&mac, Phase::Running).await;
    world.mark().await;
    let promoted_at = world.clock.now().await;
    world.clock.go_back(LAG).await;
    // While the clock catches up nothing ends, nor can anything be made to last longer.
    for _ in 0..7 {
        assert!(act(&world.store, &working, Act::Renew).await.is_some());
        assert!(world.sweep().await.ended.is_empty());
        world.clock.advance(Duration::from_secs(10)).await;
    }
    // As if no time had passed.
    assert_eq!(world.clock.now().await, promoted_at);
    world.clock.advance(TTL / 2).await;
    assert_eq!(act(&world.store, &working, Act::Renew).await, None);
    assert!(world.sweep().await.ended.is_empty());
    world.clock.advance(TTL / 2).await;
    world.sweep().await;
    assert_eq!(world.statuses(&gone).await, "queued, lost");
    world.progress(&working, Phase::Uploading).await;
    world.win(&working).await;
}

#[tokio::test]
async fn whoever_waited_for_a_lock_is_judged_by_the_mark_as_it_has_become() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let blocker = Blocker::on_attempt(&world.db, lease.attempt).await;
    let (store, waits) = (world.store.clone(), lease.clone());
    let waiting = tokio::spawn(async move { act(&store, &waits, Act::Renew).await });
    blocker.until_waiting(&world.db, 1).await;
    world.clock.advance(Duration::from_secs(30)).await;
    world.mark().await;
    let step = Duration::from_secs(20);
    world.clock.go_back(step).await;
    blocker.release().await;
    assert_eq!(waiting.await.unwrap(), Some(step));
}

#[tokio::test]
async fn a_clock_that_goes_back_while_a_commit_is_held_up_proves_nothing() {
    for what in [Act::Renew, Act::Commit, Act::Fail] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        world.clock.advance(Duration::from_secs(1)).await;
        Blocker::make_commits_wait(&world.db, "attempts", "update").await;
        let blocker = Blocker::on_commit(&world.db).await;
        let before = world.db.rows().await;
        let (store, asking) = (world.store.clone(), lease.clone());
        let waiting = tokio::spawn(async move { act(&store, &asking, what).await });
        blocker.until_waiting(&world.db, 1).await;
        // By the mark the lease is over; by the clock that went back behind it, it is not.
        world.regress(TTL).await;
        blocker.release().await;
        assert_eq!(waiting.await.unwrap(), Some(TTL), "{what:?}");
        assert_eq!(world.db.rows().await, before, "{what:?}");
    }
}

#[tokio::test]
async fn the_mark_moves_forward_at_most_once_a_second_and_nobody_waits_to_read_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let mark = async || world.store.read_clock().await.unwrap().mark;
    world.clock.advance(Duration::from_secs(5)).await;
    world.mark().await;
    let first = world.clock.now().await;
    assert_eq!(mark().await, first);
    world.clock.advance(Duration::from_secs(1)).await;
    world.mark().await;
    assert_eq!(mark().await, first, "a second has not passed");
    world.clock.advance(Duration::from_micros(1)).await;
    let reading = world.store.read_clock().await.unwrap();
    world.mark().await;
    assert_eq!(mark().await, reading.now);
    world.clock.go_back(Duration::from_mins(1)).await;
    world.mark().await;
    assert_eq!(mark().await, reading.now, "it never goes back by itself");
    world.clock.advance(Duration::from_mins(1)).await;
    let holding = "select from authority_state for update";
    let blocker = Blocker::hold(&world.db, holding).await;
    assert_eq!(act(&world.store, &lease, Act::Renew).await, None);
    assert!(world.pull(&mac, 1).await.is_empty());
    world.sweep().await;
    blocker.release().await;
}

#[tokio::test]
async fn an_offer_lives_on_while_the_clock_catches_up_and_is_accepted_then() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.lease(&mac).await;
    let step = OFFER / 2;
    world.regress(step).await;
    let accept = || Progress {
        phase: None,
        ..lease.progress(Phase::Leased)
    };
    let answers = world.store.record_progress(vec![accept()]).await.unwrap();
    assert!(matches!(answers[0], ProgressAnswer::Refused(_)));
    world.clock.advance(step).await;
    let answers = world.store.record_progress(vec![accept()]).await.unwrap();
    assert!(matches!(answers[0], ProgressAnswer::Renewed(_)));
}

#[tokio::test]
async fn an_enrollment_code_that_has_expired_stays_so_when_the_clock_goes_back() {
    let world = World::new().await;
    let code = world.enrollment(None).await;
    world.clock.advance(Duration::from_mins(16)).await;
    world.mark().await;
    world.clock.go_back(Duration::from_mins(16)).await;
    let paired = world.store.pair_device(&code, "mac").await.unwrap();
    assert!(paired.is_none());
    world.clock.advance(Duration::from_mins(16)).await;
    let code = world.enrollment(None).await;
    assert!(
        world
            .store
            .pair_device(&code, "mac")
            .await
            .unwrap()
            .is_some()
    );
}
