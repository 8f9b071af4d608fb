//! Gateways that begin beside each other.

use std::time::Duration;

use fencepost_store::Store;
use fencepost_store::fault::Cut;
use fencepost_store::identity::{Difference, Fingerprint, GatewayIdentity};
use fencepost_store::tx::begin_gateway::Stranger;
use fencepost_tests::World;
use uuid::Uuid;

fn right() -> GatewayIdentity {
    GatewayIdentity {
        link_key: Fingerprint::of(b"links"),
        webhook_key: Fingerprint::of(b"webhooks"),
        object_store: Uuid::nil(),
    }
}

/// Each differs from the right one in one thing.
fn wrong() -> [(GatewayIdentity, Difference); 3] {
    let none = Difference::default();
    let other = Fingerprint::of(b"others");
    [
        (
            GatewayIdentity {
                link_key: other,
                ..right()
            },
            Difference {
                link_key: true,
                ..none
            },
        ),
        (
            GatewayIdentity {
                webhook_key: other,
                ..right()
            },
            Difference {
                webhook_key: true,
                ..none
            },
        ),
        (
            GatewayIdentity {
                object_store: Uuid::max(),
                ..right()
            },
            Difference {
                object_store: true,
                ..none
            },
        ),
    ]
}

async fn begin(gateway: &Store, identity: GatewayIdentity) -> Result<(), Stranger> {
    gateway.begin_gateway(identity).await.expect("it runs")
}

#[tokio::test]
async fn a_gateway_that_differs_is_refused_until_the_others_are_gone() {
    for (identity, difference) in wrong() {
        let world = World::new().await;
        let (old, same, new) = (
            world.store.of_new_gateway(),
            world.store.of_new_gateway(),
            world.store.of_new_gateway(),
        );
        begin(&old, right()).await.unwrap();
        begin(&same, right()).await.unwrap();
        assert_eq!(
            begin(&new, identity).await,
            Err(Stranger::Differs(difference))
        );
        same.end_gateway().await.unwrap();
        assert_eq!(
            begin(&new, identity).await,
            Err(Stranger::Differs(difference))
        );
        // The other one dies without a word.
        world.clock.advance(Duration::from_secs(14)).await;
        assert_eq!(
            begin(&new, identity).await,
            Err(Stranger::Differs(difference))
        );
        world.clock.advance(Duration::from_secs(1)).await;
        begin(&new, identity).await.unwrap();
        // It only slept, and wakes up as the stranger.
        assert_eq!(new.estranged().await.unwrap(), None);
        let woken = Some(Stranger::Differs(difference));
        assert_eq!(old.estranged().await.unwrap(), woken);
        old.finish_sweep(world.clock.now().await).await.unwrap();
        assert_eq!(new.estranged().await.unwrap(), None);
        assert_eq!(old.estranged().await.unwrap(), woken);
    }
}

#[tokio::test]
async fn of_two_gateways_that_differ_and_begin_at_once_one_is_refused() {
    let world = World::new().await;
    let (first, second) = (world.store.of_new_gateway(), world.store.of_new_gateway());
    let mut written = world.store.faults().pause_at("begin_gateway:written");
    let begun = tokio::spawn(async move { begin(&first, right()).await });
    written.reached().await;
    let [(identity, difference), ..] = wrong();
    let mut refused = tokio::spawn(async move { begin(&second, identity).await });
    let waits = tokio::time::timeout(Duration::from_millis(300), &mut refused);
    assert!(waits.await.is_err(), "it did not wait for the first");
    written.resume();
    assert_eq!(begun.await.unwrap(), Ok(()));
    assert_eq!(refused.await.unwrap(), Err(Stranger::Differs(difference)));
}

#[tokio::test]
async fn a_gateway_whose_beginning_was_not_answered_begins_once() {
    for cut in [Cut::Before, Cut::After] {
        let world = World::new().await;
        let gateway = world.store.of_new_gateway();
        world.store.faults().cut_commit("begin_gateway", cut);
        begin(&gateway, right()).await.unwrap();
        assert_eq!(world.db.text("select count(*) from gateways").await, "1");
    }
}

#[tokio::test]
async fn a_gateway_that_ended_or_slept_for_a_day_is_forgotten() {
    let world = World::new().await;
    let (ended, asleep, awake) = (
        world.store.of_new_gateway(),
        world.store.of_new_gateway(),
        world.store.of_new_gateway(),
    );
    for gateway in [&ended, &asleep, &awake] {
        begin(gateway, right()).await.unwrap();
    }
    ended.end_gateway().await.unwrap();
    // A sweep that was still under way.
    ended.finish_sweep(world.clock.now().await).await.unwrap();
    world.clock.advance(Duration::from_hours(25)).await;
    awake.finish_sweep(world.clock.now().await).await.unwrap();
    for gateway in [&ended, &asleep] {
        assert_eq!(
            gateway.estranged().await.unwrap(),
            Some(Stranger::Forgotten)
        );
    }
    assert_eq!(awake.estranged().await.unwrap(), None);
}
