//! Ten thousand jobs that end in every way, and a thousand holds that are settled from all sides at
//! once; afterwards the ledger adds up.

use fencepost_tests::World;
use fencepost_tests::chance::Chance;
use fencepost_tests::holds::settle_from_all_sides;
use fencepost_tests::mixed::mixed_jobs;

use crate::setting;

const JOBS: usize = 10_000;
const ROUNDS: usize = 1_000;

fn chance(who: u64) -> Chance {
    let seed = setting("SOAK_SEED", u64::from(std::process::id()));
    println!("soak: money with SOAK_SEED={seed}");
    Chance::new(seed, who)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_ten_thousand_jobs_that_ended_in_every_way_everything_adds_up() {
    let world = World::new().await;
    let ended = mixed_jobs(&world, &mut chance(1), JOBS).await;
    println!("soak: {JOBS} jobs: {ended:?}");
    let check = world.store.check_ledger().await.expect("it runs");
    assert_eq!(check.findings, []);
    assert_eq!(check.jobs, 10_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_holds_that_are_settled_from_all_sides_are_settled_once() {
    let world = World::new().await;
    let paid = settle_from_all_sides(&world, ROUNDS, &mut chance(2)).await;
    println!("soak: {ROUNDS} holds settled from all sides, {paid} captured");
    assert!((1..ROUNDS).contains(&paid), "it was no race: {paid}");
    let check = world.store.check_ledger().await.expect("it runs");
    assert_eq!(check.findings, []);
}
