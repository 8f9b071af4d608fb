//! Two transactions at once: exactly one outcome, no deadlock, and whoever waited judges anew.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_store::Store;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::world::{SERVICES, TTL, commit_on, good};
use fencepost_tests::{Blocker, Lease, World};
use tokio::sync::Barrier;

#[tokio::test]
async fn a_commit_that_waited_while_its_job_was_leased_anew_is_refused() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for operation in ["commit", "fail", "progress"] {
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let mut blocker = Blocker::on_job(&world.db, lease.job).await;
        if operation == "progress" {
            // Progress locks the attempt alone.
            blocker
                .run(&format!(
                    "select from attempts where id = '{}' for update",
                    lease.attempt
                ))
                .await;
        }
        let (store, asking) = (world.store.clone(), lease.clone());
        let asked = tokio::spawn(async move { is_refused(&store, &asking, operation).await });
        blocker.until_waiting(&world.db, 1).await;
        blocker.run(&lose_and_lease_anew(&lease)).await;
        blocker.commit().await;
        assert!(asked.await.unwrap(), "{operation} was accepted");
        let writers = format!(
            "select distinct xmin from (select xmin from jobs where id = '{job}'
             union all select xmin from attempts where job_id = '{job}') x",
            job = lease.job
        );
        assert_eq!(
            world.db.texts(&writers).await.len(),
            1,
            "{operation} wrote to a row"
        );
        assert_eq!(world.statuses(&lease).await, "active, lost");
        world.cancel(lease.job).await;
    }
}

/// What another gateway's sweep and round do, in one transaction.
fn lose_and_lease_anew(lease: &Lease) -> String {
    let (attempt, job) = (lease.attempt, lease.job);
    format!(
        "update attempts set status = 'lost', ended_at = authority_now(), lease_expires_at = null,
            check_after = null, charged = true, failure_code = 'lease_expired' where id = '{attempt}';
         update jobs set status = 'queued', queue_key = order_key, charged_attempts = 1 where id = '{job}';
         update jobs set status = 'active', queue_key = null, epoch_counter = 2, attempt_counter = 2
            where id = '{job}';
         insert into attempts (id, job_id, org_id, device_id, provider_id, attempt_number, output_key,
            leased_at, run_deadline, session_number, lease_epoch, token_digest, lease_expires_at,
            grant_expires_at, check_after)
         select gen_random_uuid(), job_id, org_id, device_id, provider_id, 2, 'second', leased_at,
            run_deadline, session_number, 2, sha256('x'), authority_now() + interval '10 s',
            grant_expires_at, authority_now() + interval '10 s' from attempts where id = '{attempt}'"
    )
}

async fn is_refused(store: &Store, lease: &Lease, operation: &str) -> bool {
    match operation {
        "commit" => {
            let answer = commit_on(store, lease.commit()).await;
            matches!(answer, CommitAnswer::Refused(_))
        }
        "fail" => {
            let end = vec![lease.fail(FailureCode::RunnerFailed)];
            let answer = store
                .end_by_agent(end)
                .await
                .expect("it has an answer")
                .remove(0);
            matches!(answer, AgentEndAnswer::Refused(_))
        }
        _ => {
            let progress = vec![lease.progress(Phase::Uploading)];
            let answer = store
                .record_progress(progress)
                .await
                .expect("it has an answer")
                .remove(0);
            matches!(answer, ProgressAnswer::Refused(_))
        }
    }
}

const RACES: usize = 500;

#[tokio::test]
async fn commit_and_sweep_at_the_same_instant_end_every_job_in_one_way() {
    let world = World::new().await;
    let leases = uploading(&world, RACES).await;
    let end = world.clock.now().await + TTL;
    // Only the raced attempt is looked at by a sweep: all of them expire at the same instant.
    world
        .db
        .execute("update attempts set check_after = check_after + interval '1 day'")
        .await;
    let (mut won, mut lost) = (0, 0);
    for (race, lease) in leases.iter().enumerate() {
        world.clock.set(end - Duration::from_micros(1)).await;
        let look = format!(
            "update attempts set check_after = lease_expires_at where id = '{}'",
            lease.attempt
        );
        world.db.execute(&look).await;
        let barrier = Barrier::new(3);
        // A head start for one of them, a different one each time.
        let head_start = |turns: usize| async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        };
        let commit = async {
            barrier.wait().await;
            head_start(race % 7).await;
            commit_on(&world.store, lease.commit()).await
        };
        let sweep = async {
            barrier.wait().await;
            world
                .store
                .expire_due(10, &SERVICES)
                .await
                .expect("a sweep runs")
        };
        let time_passes = async {
            barrier.wait().await;
            head_start(race % 5).await;
            world.clock.set(end).await;
        };
        let (answer, report, ()) = tokio::join!(commit, sweep, time_passes);
        match answer {
            CommitAnswer::Verify(ticket) => {
                let ended = report
                    .ended
                    .iter()
                    .any(|end| end.attempt() == lease.attempt);
                assert!(!ended, "it was accepted and ended");
                world.settle(&ticket, good(1.0)).await;
                won += 1;
            }
            CommitAnswer::Refused(_) => lost += 1,
            other => panic!("{other:?}"),
        }
    }
    world.sweep().await;
    let ended = "select status || ' ' || count(*) from jobs group by status order by status";
    // One attempt was the budget: whoever lost has failed, by the sweep that raced or by the last.
    assert_eq!(
        world.db.texts(ended).await,
        [format!("succeeded {won}"), format!("failed {lost}")]
    );
    assert_eq!(won + lost, RACES);
    assert!(
        won > 0 && lost > 0,
        "it was no race: {won} won, {lost} lost"
    );
}

/// `count` jobs with a budget of one, all uploading, on as many devices as it takes.
async fn uploading(world: &World, count: usize) -> Vec<Lease> {
    let words = ["transcode.v1", "encode.h264"];
    world.submit_many(count).await;
    world.db.execute("update jobs set max_attempts = 1").await;
    let mut leases = Vec::new();
    while leases.len() < count {
        let mac = world.device_with("mac", 64, &words).await;
        leases.extend(world.pull(&mac, 64).await);
    }
    let progress = leases
        .iter()
        .map(|lease| lease.progress(Phase::Uploading))
        .collect();
    let answers = world
        .store
        .record_progress(progress)
        .await
        .expect("progress runs");
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, ProgressAnswer::Renewed(_)))
    );
    leases
}

#[tokio::test]
async fn cancel_and_commit_at_once_end_in_one_way_and_money_and_event_agree() {
    let world = World::new().await;
    let leases = uploading(&world, 60).await;
    let (mut accepted, mut rejected) = (0, 0);
    for (race, lease) in leases.iter().enumerate() {
        let cancel = async {
            for _ in 0..race % 6 {
                tokio::task::yield_now().await;
            }
            world.cancel(lease.job).await
        };
        let (_, answer) = tokio::join!(cancel, world.commit(lease));
        match answer {
            CommitAnswer::Verify(ticket) => {
                accepted += 1;
                world.settle(&ticket, good(1.0)).await;
            }
            CommitAnswer::Final {
                replayed: false, ..
            } => rejected += 1,
            other => panic!("{other:?}"),
        }
        assert_eq!(world.statuses(lease).await, "cancelled, cancelled");
        assert_eq!(world.postings(lease.job).await, "hold 6000, release 6000");
        assert_eq!(world.events(lease.job).await, "job.cancelled");
    }
    assert_eq!(accepted + rejected, leases.len());
}

#[tokio::test]
async fn fail_and_sweep_and_commit_and_cancel_at_once_charge_at_most_once() {
    let world = World::new().await;
    let leases = uploading(&world, 60).await;
    world
        .clock
        .advance(TTL.saturating_sub(Duration::from_micros(1)))
        .await;
    let now = world.clock.now().await;
    for lease in &leases {
        world.clock.set(now).await;
        let fail = world.end(lease.fail(FailureCode::UploadFailed));
        let tick = world.clock.advance(Duration::from_micros(1));
        let sweep = world.store.expire_due(200, &SERVICES);
        let commit = world.commit(lease);
        let cancel = world.cancel(lease.job);
        let _ = tokio::join!(commit, fail, tick, sweep, cancel);
    }
    // The checker judges what became of them.
    assert!(world.db.violations().await.is_empty());
}
