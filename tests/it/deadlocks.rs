//! Every two transactions that take locks, against each other, on the same two attempts and in
//! opposite order: none may wait for the other in a circle.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::reap_workspaces::Reap;
use fencepost_store::tx::settle_commit::Settle;
use fencepost_store::{Store, StoreError};
use fencepost_tests::world::{SERVICES, good};
use fencepost_tests::{Device, Lease, World};

/// What two transactions may meet over: two attempts of one device, and their jobs.
#[derive(Clone)]
struct Ground {
    world: Arc<World>,
    mac: Device,
    leases: Vec<Lease>,
}

/// Every transaction that takes more than one lock, or one that others take too.
const CALLS: [&str; 24] = [
    "submit",
    "add credit",
    "lease",
    "hello",
    "pair again",
    "drain",
    "cancel first",
    "cancel second",
    "expire",
    "tend",
    "progress",
    "commit",
    "settle",
    "renew verifications",
    "fail",
    "stopped",
    "return",
    "place",
    "grant",
    "events",
    "artifacts",
    "hand off",
    "claim reaps",
    "reaped",
];

/// Runs a transaction on the ground's leases, in their order.
async fn call(name: &str, ground: Ground) -> Result<(), StoreError> {
    let Ground { world, mac, leases } = &ground;
    let store = &world.store;
    match name {
        "submit" => {
            let job = world.new_job().await;
            store.submit_job(job).await.map(drop)
        }
        "add credit" => store.add_credit(world.org, 1).await.map(drop),
        "lease" => store
            .lease_round(vec![mac.pull(2)], Cursor::default())
            .await
            .map(drop),
        "hello" => {
            let held = leases.iter().map(Lease::held).collect();
            let mut mac = mac.clone();
            // The token is void if the other one pairs the device again.
            if let Some((_, session)) = store.mint_session(&mac.token).await? {
                mac.session = session;
            }
            store.begin_session(world.hello(&mac, held)).await.map(drop)
        }
        "pair again" => {
            let code = world.enrollment(Some(mac.id)).await;
            store.pair_device(&code, "mac").await.map(drop)
        }
        "drain" => store.set_device_draining(mac.id, false).await.map(drop),
        "cancel first" => store.cancel_job(world.org, leases[0].job).await.map(drop),
        "cancel second" => store.cancel_job(world.org, leases[1].job).await.map(drop),
        "expire" => store.expire_due(10, &SERVICES).await.map(drop),
        "claim reaps" => {
            let connected = vec![(mac.id, mac.session)];
            store.claim_reaps(connected, 10).await.map(drop)
        }
        "tend" => store.tend_queue(10).await.map(drop),
        _ => call_with_leases(name, store, leases).await,
    }
}

/// The transactions that take a list of leases.
async fn call_with_leases(name: &str, store: &Store, leases: &[Lease]) -> Result<(), StoreError> {
    match name {
        "progress" => {
            let progress = leases.iter().map(|one| one.progress(Phase::Uploading));
            store.record_progress(progress.collect()).await.map(drop)
        }
        "commit" => {
            let commits = leases.iter().map(Lease::commit).collect();
            store.begin_verification(commits).await.map(drop)
        }
        "settle" => {
            let settle = |one: &Lease| Settle {
                attempt: one.attempt,
                verification_epoch: 1,
                copy_key: format!("copy/{}", one.attempt),
                verdict: good(1.0),
            };
            store
                .settle_commit(leases.iter().map(settle).collect())
                .await
                .map(drop)
        }
        "renew verifications" => {
            let verifications = leases.iter().map(|one| (one.attempt, 1)).collect();
            store.renew_verifications(verifications).await
        }
        "fail" => {
            let fails = leases.iter().map(|one| one.fail(FailureCode::DeviceFault));
            store.end_by_agent(fails.collect()).await.map(drop)
        }
        "stopped" => {
            let stopped = leases.iter().map(Lease::stopped).collect();
            store.end_by_agent(stopped).await.map(drop)
        }
        "return" => {
            let offers = leases.iter().map(Lease::claim).collect();
            store.return_offers(offers).await.map(drop)
        }
        "place" => {
            let place = Box::new(|| Ok(()));
            store
                .place_attempt_output(leases[0].attempt, place)
                .await
                .map(drop)
        }
        "grant" => store.grant_objects(leases[0].claim()).await.map(drop),
        _ => call_beside_leases(name, store, leases).await,
    }
}

/// What is written besides the lease itself.
async fn call_beside_leases(name: &str, store: &Store, leases: &[Lease]) -> Result<(), StoreError> {
    match name {
        "events" => {
            let events = leases.iter().map(|one| one.event(0)).collect();
            store.write_events(events).await.map(drop)
        }
        "artifacts" => {
            let artifact = |one: &Lease| one.artifact("encoder.log", &granted_key(one));
            let artifacts = leases.iter().map(artifact).collect();
            store.write_artifacts(artifacts).await.map(drop)
        }
        "hand off" => {
            let hand_offs = leases.iter().map(|one| one.hand_off("")).collect();
            store.hand_off(hand_offs).await.map(drop)
        }
        "reaped" => {
            let reap = |one: &Lease| Reap {
                device: one.device,
                handle: one.attempt.to_string(),
            };
            store
                .reaped(leases.iter().map(reap).collect())
                .await
                .map(drop)
        }
        other => panic!("there is no {other}"),
    }
}

/// The object of the artifact that the ground was granted.
fn granted_key(lease: &Lease) -> String {
    fencepost_domain::artifact_key::attempt_artifact(
        lease.job,
        lease.attempt,
        lease.epoch,
        "encoder.log",
    )
}

/// The ground in one of four states.
async fn ground(world: &Arc<World>, mac: &mut Device, state: usize) -> Ground {
    let code = world.enrollment(Some(mac.id)).await;
    let paired = world
        .store
        .pair_device(&code, "mac")
        .await
        .expect("pairing runs");
    mac.token = paired.expect("the code is good").token;
    world.reconnect(mac, Vec::new()).await;
    world.submit_many(2).await;
    let leases = world.pull(mac, 2).await;
    assert_eq!(leases.len(), 2);
    if state > 0 {
        for lease in &leases {
            world.progress(lease, Phase::Uploading).await;
            world.grant_artifact(lease, "encoder.log").await;
        }
    }
    if state > 1 {
        world.commit(&leases[0]).await;
    }
    if state > 2 {
        world.cancel(leases[1].job).await;
    }
    Ground {
        world: Arc::clone(world),
        mac: mac.clone(),
        leases,
    }
}

async fn clear(world: &World) {
    for job in world
        .db
        .texts("select id from jobs where ended_at is null")
        .await
    {
        world.cancel(job.parse().expect("it is an id")).await;
    }
    world.clock.advance(Duration::from_secs(15)).await;
    world.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_transactions_deadlock() {
    let world = Arc::new(World::new().await);
    let mut mac = world
        .device_with("mac", 8, &["transcode.v1", "encode.h264"])
        .await;
    let mut state = 0;
    for (position, one) in CALLS.into_iter().enumerate() {
        for two in &CALLS[position..] {
            let there = ground(&world, &mut mac, state % 4).await;
            let mut back = there.clone();
            back.leases.reverse();
            state += 1;
            let (first, second) = tokio::join!(
                tokio::spawn(call(one, there)),
                tokio::spawn(call(two, back))
            );
            for result in [first, second] {
                let result = result.expect("it does not panic");
                assert!(result.is_ok(), "{one} against {two}: {result:?}");
            }
            clear(&world).await;
        }
    }
    // Backends report what they saw when they end, at the latest.
    world.store.close().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(world.db.text(deadlocks).await, "0");
}
