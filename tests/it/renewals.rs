//! Explicit renewals of a lease: forwards, within its bounds, or not at all.

use std::time::Duration;

use fencepost_domain::fencing::FenceViolation;
use fencepost_domain::ids::RequestId;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::{Asked, Refusal};
use fencepost_tests::world::TTL;
use fencepost_tests::{Blocker, World};

#[tokio::test]
async fn after_a_release_the_next_epoch_is_higher_than_any_and_the_released_one_renews_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world.submit().await;
    let mut highest = 0;
    for _ in 0..3 {
        let lease = world.claim(&mac).await;
        assert_eq!(lease.job, job);
        assert!(lease.epoch > highest);
        highest = lease.epoch;
        let answer = world.end(lease.release()).await;
        assert!(matches!(answer, AgentEndAnswer::Final { .. }), "{answer:?}");
        let before = world.db.rows().await;
        let answer = world.renew(&lease, None).await;
        assert!(matches!(answer, ProgressAnswer::Refused(_)), "{answer:?}");
        assert_eq!(world.db.rows().await, before);
        world.clock.advance(Duration::from_mins(5)).await;
        world.sweep().await;
    }
}

#[tokio::test]
async fn a_renewal_that_would_not_extend_is_refused_and_the_row_is_as_it_was() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    world.clock.advance(Duration::from_secs(10)).await;
    let before = world.db.rows().await;
    // Exactly what is left is no extension either.
    for seconds in [1, 49, 50] {
        let answer = world.renew(&lease, Some(seconds)).await;
        assert_eq!(answer, ProgressAnswer::Refused(Refusal::NotExtending));
    }
    assert_eq!(world.db.rows().await, before);
    let ProgressAnswer::Renewed(renewal) = world.renew(&lease, Some(51)).await else {
        panic!("it is not renewed");
    };
    assert_eq!(renewal.remaining, Duration::from_secs(51));
    // A lease is never longer than leases are.
    let ProgressAnswer::Renewed(renewal) = world.renew(&lease, Some(3_600)).await else {
        panic!("it is not renewed");
    };
    assert_eq!(renewal.remaining, TTL);
}

#[tokio::test]
async fn a_renewal_that_is_held_up_at_its_commit_past_the_old_end_is_undone() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    world.clock.advance(Duration::from_secs(1)).await;
    Blocker::make_commits_wait(&world.db, "attempts", "update").await;
    let blocker = Blocker::on_commit(&world.db).await;
    let before = world.db.rows().await;
    let key = fencepost_tests::claims::key(&lease, "renew", RequestId::new(), "");
    let (store, claim) = (world.store.clone(), lease.claim());
    let waiting = tokio::spawn(async move { store.renew_lease(key, claim, None).await });
    blocker.until_waiting(&world.db, 1).await;
    world.clock.advance(TTL).await;
    blocker.release().await;
    let expired = Refusal::Fence(FenceViolation::Expired);
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(answer, Asked::First(ProgressAnswer::Refused(expired)));
    assert_eq!(world.db.rows().await, before);
}
