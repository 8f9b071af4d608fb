//! A buyer's word for a request: the same request is the same job, whenever and however often.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::JobId;
use fencepost_store::tx::submit_job::{IdempotencyKey, NewJob, Submitted};
use fencepost_tests::World;
use fencepost_tests::world::{CREDIT, HELD};

fn named(key: &str, meaning: u8) -> IdempotencyKey {
    IdempotencyKey {
        key: key.to_owned(),
        fingerprint: [meaning; 32],
    }
}

async fn request(world: &World, key: &str, meaning: u8) -> NewJob {
    let mut job = world.new_job().await;
    job.idempotency = Some(named(key, meaning));
    job
}

async fn submit(world: &World, job: NewJob) -> Submitted {
    world.store.submit_job(job).await.expect("submitting runs")
}

async fn held(world: &World) -> i64 {
    let balance = world.store.balance(world.org).await.expect("it runs");
    balance.expect("the org exists").held_micros
}

fn queued(answer: &Submitted) -> bool {
    matches!(answer, Submitted::Queued { .. })
}

#[tokio::test]
async fn twenty_requests_at_once_with_one_key_are_one_job_and_one_hold() {
    let world = World::new().await;
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let job = request(&world, "order-1", 1).await;
        let store = world.store.clone();
        tasks.push(tokio::spawn(async move {
            (job.id, store.submit_job(job).await)
        }));
    }
    let (mut made, mut replayed) = (Vec::new(), Vec::new());
    for task in tasks {
        match task.await.unwrap() {
            (id, Ok(Submitted::Queued { .. })) => made.push(id),
            (_, Ok(Submitted::Replayed { job })) => replayed.push(job),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made.len(), replayed.len()), (1, 19));
    assert!(replayed.iter().all(|job| *job == made[0]));
    assert_eq!(held(&world).await, HELD);
}

#[tokio::test]
async fn twenty_requests_in_one_batch_with_one_key_are_one_job() {
    let world = World::new().await;
    let mut jobs = Vec::new();
    for meaning in [1, 1, 2, 1] {
        jobs.push(request(&world, "order-1", meaning).await);
    }
    let first = jobs[0].id;
    let answers = world.store.submit_jobs(jobs).await.unwrap();
    assert!(queued(&answers[0]));
    assert_eq!(answers[1], Submitted::Replayed { job: first });
    assert_eq!(answers[2], Submitted::KeyReused);
    assert_eq!(answers[3], Submitted::Replayed { job: first });
    assert_eq!(held(&world).await, HELD);
}

#[tokio::test]
async fn another_request_with_the_key_is_refused_and_another_orgs_key_is_its_own() {
    let world = World::new().await;
    let first = request(&world, "order-1", 1).await;
    assert!(queued(&submit(&world, first).await));
    let other = request(&world, "order-1", 2).await;
    assert_eq!(submit(&world, other).await, Submitted::KeyReused);
    let org = world.store.create_org("other", None).await.unwrap();
    world.store.add_credit(org, CREDIT).await.unwrap();
    let mut foreign = request(&world, "order-1", 2).await;
    foreign.org = org;
    foreign.inputs.clear();
    assert!(queued(&submit(&world, foreign).await));
    assert_eq!(held(&world).await, HELD);
}

#[tokio::test]
async fn a_refused_request_leaves_its_key_free() {
    let world = World::new().await;
    let mut dear = request(&world, "order-1", 1).await;
    dear.terms.base_micros = CREDIT + 1;
    let refused = submit(&world, dear).await;
    assert!(
        matches!(refused, Submitted::InsufficientCredit { .. }),
        "{refused:?}"
    );
    let corrected = request(&world, "order-1", 2).await;
    assert!(queued(&submit(&world, corrected).await));
}

#[tokio::test]
async fn the_key_is_good_for_a_day_after_the_end_and_then_forgotten() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let first = request(&world, "order-1", 1).await;
    let job: JobId = first.id;
    assert!(queued(&submit(&world, first).await));
    world.clock.advance(Duration::from_hours(20)).await;
    let lease = world.lease(&mac).await;
    world.progress(&lease, Phase::Uploading).await;
    world.win(&lease).await;
    let day = Duration::from_hours(24);
    world.clock.advance(day).await;
    world.mark().await;
    assert_eq!(world.store.prune_keys(10).await.unwrap(), 0);
    let again = request(&world, "order-1", 1).await;
    assert_eq!(submit(&world, again).await, Submitted::Replayed { job });
    // The mark moves once a second.
    world.clock.advance(Duration::from_secs(2)).await;
    world.mark().await;
    assert_eq!(world.store.prune_keys(10).await.unwrap(), 1);
    let new = request(&world, "order-1", 2).await;
    assert!(queued(&submit(&world, new).await));
}
