//! Whose delivery is claimed next, and how many of each endpoint's at once.

use fencepost_domain::webhook::AT_ONCE;
use fencepost_store::tx::webhooks::claim::Room;
use fencepost_store::tx::webhooks::record::Recorded;
use fencepost_tests::World;

use crate::webhooks::{CLAIM, HOUR, all_end, answered, claim, endpoint, event, record, tried};

#[tokio::test]
async fn an_endpoint_gets_so_much_at_once_and_one_that_fails_one_by_one() {
    let world = World::new().await;
    endpoint(&world).await;
    for _ in 0..20 {
        event(&world).await;
    }
    let at_once = usize::try_from(AT_ONCE).unwrap();
    let first = claim(&world.store).await;
    assert_eq!(first.len(), at_once);
    assert!(
        claim(&world.store).await.is_empty(),
        "all of its places are taken"
    );
    record(&world, vec![tried(&first[0], answered(200))]).await;
    assert_eq!(
        claim(&world.store).await.len(),
        1,
        "one place is free again"
    );
    record(&world, vec![tried(&first[1], answered(500))]).await;
    assert!(
        claim(&world.store).await.is_empty(),
        "it fails, and others are still open"
    );
    let rest = first[2..].iter().map(|one| tried(one, answered(500)));
    record(&world, rest.collect()).await;
    world.clock.advance(CLAIM).await;
    let failing = claim(&world.store).await;
    assert_eq!(failing.len(), 1);
    assert!(failing[0].is_failing);
    // Success opens it again.
    record(&world, vec![tried(&failing[0], answered(204))]).await;
    assert_eq!(claim(&world.store).await.len(), at_once);
}

#[tokio::test]
async fn endpoints_that_fail_have_a_part_of_the_room_and_no_more() {
    let world = World::new().await;
    for _ in 0..4 {
        endpoint(&world).await;
    }
    event(&world).await;
    assert_eq!(all_end(&world, 500).await, [Recorded::Retried; 4]);
    let healthy = endpoint(&world).await;
    event(&world).await;
    world.clock.advance(HOUR).await;
    let room = Room {
        all: 100,
        failing: 2,
    };
    let claimed = world.store.claim_deliveries(room).await.unwrap();
    assert_eq!(claimed.iter().filter(|one| one.is_failing).count(), 2);
    assert!(claimed.iter().any(|one| one.endpoint == healthy));
}

#[tokio::test]
async fn an_endpoint_that_fails_does_not_keep_the_turn_of_another_because_more_waits_for_it() {
    let world = World::new().await;
    let silent = endpoint(&world).await;
    for _ in 0..3 {
        event(&world).await;
    }
    assert_eq!(all_end(&world, 500).await, [Recorded::Retried; 3]);
    let stumbled = endpoint(&world).await;
    event(&world).await;
    let one = Room {
        all: 100,
        failing: 1,
    };
    let claimed = claim(&world.store).await;
    let fresh = claimed.iter().filter(|one| one.endpoint == stumbled);
    let fresh = fresh.map(|one| tried(one, answered(500))).collect();
    assert_eq!(record(&world, fresh).await, [Recorded::Retried]);
    world.clock.advance(HOUR).await;
    let who = async || {
        let claimed = world.store.claim_deliveries(one).await.unwrap();
        claimed.iter().map(|one| one.endpoint).collect::<Vec<_>>()
    };
    // What waits for the silent one is older, but it has its turn already, and then it has had it.
    assert_eq!(who().await, [silent]);
    assert_eq!(who().await, [stumbled]);
    assert_eq!(who().await, Vec::new());
}

#[tokio::test]
async fn one_that_is_slow_to_answer_leaves_the_next_place_to_one_that_has_none() {
    let world = World::new().await;
    let slow = endpoint(&world).await;
    for _ in 0..20 {
        event(&world).await;
    }
    let few = Room { all: 3, failing: 1 };
    assert_eq!(world.store.claim_deliveries(few).await.unwrap().len(), 3);
    let quick = endpoint(&world).await;
    event(&world).await;
    let claimed = world.store.claim_deliveries(few).await.unwrap();
    let of = |endpoint| {
        claimed
            .iter()
            .filter(|one| one.endpoint == endpoint)
            .count()
    };
    assert_eq!((of(quick), of(slow)), (1, 2));
}

#[tokio::test]
async fn gateways_at_once_take_each_delivery_once() {
    let world = World::new().await;
    for _ in 0..3 {
        endpoint(&world).await;
    }
    for _ in 0..8 {
        event(&world).await;
    }
    let mut all = Vec::new();
    while all.len() < 24 {
        let asking = (0..4).map(|_| claim(&world.store));
        let claimed = futures_util::future::join_all(asking).await.concat();
        assert!(
            !claimed.is_empty() || !all.is_empty(),
            "nobody got anything"
        );
        all.extend(claimed.iter().map(|one| (one.endpoint, one.event)));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 24);
}
