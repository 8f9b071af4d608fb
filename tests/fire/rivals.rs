//! Everything at once on the same jobs: one outcome each, money once, and nobody waits in a circle.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_store::StoreSettings;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_tests::world::{SERVICES, TTL, good, settlement};
use fencepost_tests::{Blocker, Lease, World};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const ROUNDS: usize = 300;

/// So many jobs with a budget of one, all uploading.
async fn uploading(world: &World, count: usize) -> Vec<Lease> {
    world.submit_many(count).await;
    world.db.execute("update jobs set max_attempts = 1").await;
    let mut leases = Vec::new();
    while leases.len() < count {
        let words = ["transcode.v1", "encode.h264"];
        let mac = world.device_with("mac", 64, &words).await;
        leases.extend(world.pull(&mac, 64).await);
    }
    let progress = leases.iter().map(|lease| lease.progress(Phase::Uploading));
    let answers = world.store.record_progress(progress.collect()).await;
    assert_eq!(answers.expect("it runs").len(), count);
    leases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_cancels_a_commit_a_sweep_and_a_failure_behind_one_barrier_settle_a_hold_once() {
    let world = Arc::new(World::new().await);
    let leases = uploading(&world, ROUNDS).await;
    let end = world.clock.now().await + TTL;
    let look_later = "update attempts set check_after = check_after + interval '1 day'";
    world.db.execute(look_later).await;
    for (round, lease) in leases.iter().enumerate() {
        // Every other lease ends just as they begin.
        let early = Duration::from_micros((round % 2) as u64);
        world.clock.set(end - early).await;
        let look = format!(
            "update attempts set check_after = lease_expires_at where id = '{}'",
            lease.attempt
        );
        world.db.execute(&look).await;
        all_at_once(&world, lease).await;
    }
    world.clock.set(end + Duration::from_hours(48)).await;
    world.sweep().await;
    let settled = "select count(*) from jobs j where j.ended_at is not null and (
            select count(*) filter (where kind = 'hold') = 1
                and sum(case kind when 'hold' then amount_micros else -amount_micros end) = 0
                and count(*) = count(distinct kind)
            from postings p where p.job_id = j.id)";
    assert_eq!(world.db.text(settled).await, ROUNDS.to_string());
    let outcomes = "select status from jobs group by status order by 1";
    let outcomes = world.db.texts(outcomes).await;
    assert!(outcomes.len() >= 2, "it was no race: {outcomes:?}");
}

async fn all_at_once(world: &Arc<World>, lease: &Lease) {
    let barrier = Arc::new(Barrier::new(5));
    let mut running = JoinSet::new();
    for rival in ["cancel", "cancel again", "commit", "sweep", "fail"] {
        let (world, lease) = (Arc::clone(world), lease.clone());
        let barrier = Arc::clone(&barrier);
        running.spawn(async move {
            barrier.wait().await;
            rush(&world, &lease, rival).await;
        });
    }
    running.join_all().await;
}

async fn rush(world: &World, lease: &Lease, rival: &str) {
    match rival {
        "commit" => {
            if let CommitAnswer::Verify(ticket) = world.commit(lease).await {
                let settled = world.settle(&ticket, good(30.0)).await;
                assert!(matches!(settled, Settled::Final(_)), "{settled:?}");
            }
        }
        "sweep" => {
            let swept = world.store.expire_due(10, &SERVICES).await;
            swept.expect("a sweep runs");
        }
        "fail" => {
            world.end(lease.fail(FailureCode::UploadFailed)).await;
        }
        _ => {
            world.cancel(lease.job).await;
        }
    }
}

const CONNECTIONS: usize = 8;
const JOBS: usize = 20;
const LONG: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_connections_on_twenty_jobs_never_wait_in_a_circle() {
    let world = Arc::new(World::new().await);
    world.clock.run().await;
    let words = ["transcode.v1", "encode.h264"];
    let mac = world.device_with("mac", 64, &words).await;
    let upload = world.upload().await;
    let until = tokio::time::Instant::now() + LONG;
    let mut generation = 0;
    while tokio::time::Instant::now() < until {
        for _ in 0..JOBS {
            let job = world.new_job_of(upload);
            world.store.submit_job(job).await.expect("submitting runs");
        }
        let leases = world.pull(&mac, 64).await;
        assert_eq!(leases.len(), JOBS, "generation {generation}");
        let mut running = JoinSet::new();
        for connection in 0..CONNECTIONS {
            let settings = StoreSettings {
                max_connections: 1,
                ..StoreSettings::default()
            };
            let store = world.db.open_store(settings);
            let (org, mut leases) = (world.org, leases.clone());
            if connection % 2 == 1 {
                leases.reverse();
            }
            running.spawn(async move {
                let result = attack(&store, org, &leases, connection).await;
                store.close().await;
                result
            });
        }
        for result in running.join_all().await {
            assert!(result.is_ok(), "{result:?}");
        }
        clear(&world).await;
        generation += 1;
    }
    assert!(generation > 1, "it went round only {generation} times");
    world.store.close().await;
    // Backends report what they saw when they end, at the latest.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(world.db.text(deadlocks).await, "0");
}

/// Progress, commits, failures, settlements, cancels and sweeps of all leases.
async fn attack(
    store: &fencepost_store::Store,
    org: fencepost_domain::ids::OrgId,
    leases: &[Lease],
    connection: usize,
) -> Result<(), fencepost_store::StoreError> {
    let progress: Vec<_> = leases
        .iter()
        .map(|one| one.progress(Phase::Uploading))
        .collect();
    store.record_progress(progress.clone()).await?;
    match connection % 4 {
        0 => {
            let commits = leases.iter().map(Lease::commit).collect();
            let mut settlements = Vec::new();
            for answer in store.begin_verification(commits).await? {
                if let CommitAnswer::Verify(ticket) = answer {
                    settlements.push(settlement(&ticket, good(1.0)));
                }
            }
            store.settle_commit(settlements).await?;
        }
        1 => {
            for lease in leases.iter().step_by(3) {
                store.cancel_job(org, lease.job).await?;
            }
        }
        2 => {
            for _ in 0..5 {
                store.expire_due(50, &SERVICES).await?;
                store.record_progress(progress.clone()).await?;
            }
        }
        _ => {
            let fails = leases.iter().skip(1).step_by(5);
            let fails = fails
                .map(|one| one.fail(FailureCode::RunnerFailed))
                .collect();
            store.end_by_agent(fails).await?;
        }
    }
    Ok(())
}

async fn clear(world: &World) {
    let live = "select id from jobs where ended_at is null";
    for job in world.db.texts(live).await {
        world.cancel(job.parse().expect("it is an id")).await;
    }
    world.clock.advance(Duration::from_hours(2)).await;
    world.sweep().await;
    assert_eq!(world.db.texts(live).await, [""; 0]);
}

#[tokio::test]
async fn a_deadlock_that_somebody_else_makes_is_tried_again_and_no_conflict() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let mut blocker = Blocker::on_attempt(&world.db, lease.attempt).await;
    let (store, commit) = (world.store.clone(), lease.commit());
    let running = tokio::spawn(async move { store.begin_verification(vec![commit]).await });
    blocker.until_waiting(&world.db, 1).await;
    // It has the job and wants the attempt; now the other way round. Whoever began to wait first
    // looks first, finds the circle, and is the one that Postgres ends.
    let job = format!("select from jobs where id = '{}' for update", lease.job);
    blocker.run(&job).await;
    assert!(!running.is_finished(), "a deadlock was passed on");
    blocker.release().await;
    let answers = running.await.expect("it does not panic").expect("it runs");
    assert!(matches!(answers[0], CommitAnswer::Verify(_)), "{answers:?}");
}
