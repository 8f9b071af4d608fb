//! Deliveries as rows: who may take one, how often, and when an endpoint is given up.

use std::time::Duration;

use fencepost_domain::ids::{EndpointId, OutboxId};
use fencepost_domain::webhook::{AT_ONCE, GIVE_UP_AFTER};
use fencepost_store::Store;
use fencepost_store::fault::Cut;
use fencepost_store::tx::webhooks::change::EndpointChange;
use fencepost_store::tx::webhooks::claim::{Claimed, Room};
use fencepost_store::tx::webhooks::endpoints::{NewEndpoint, NewSecret};
use fencepost_store::tx::webhooks::record::{Recorded, Sent, Try};
use fencepost_store::tx::webhooks::redeliver::{Redelivered, Which};
use fencepost_store::vault::{Vault, WebhookSecret};
use fencepost_tests::World;
use time::OffsetDateTime;

const ROOM: Room = Room {
    all: 100,
    failing: 100,
};
const HOUR: Duration = Duration::from_hours(1);
/// Longer than a claim lasts.
const CLAIM: Duration = Duration::from_secs(30);
const JUST_WITHIN: Duration = Duration::from_micros(29_999_999);

fn answered(status: u16) -> Sent {
    Sent::Answered {
        status,
        retry_after: None,
        body: "so".to_owned(),
    }
}

fn tried(one: &Claimed, sent: Sent) -> Try {
    Try {
        endpoint: one.endpoint,
        event: one.event,
        claim: one.claim,
        sent,
        took: Duration::from_millis(7),
    }
}

pub(crate) async fn endpoint(world: &World) -> EndpointId {
    endpoint_for(world, &["job.succeeded", "job.failed", "job.cancelled"]).await
}

async fn endpoint_for(world: &World, event_types: &[&str]) -> EndpointId {
    let id = EndpointId::new();
    let new = NewEndpoint {
        id,
        org: world.org,
        url: "https://receiver.example/".to_owned(),
        event_types: event_types.iter().map(|&kind| kind.to_owned()).collect(),
        secret: Vault::new(&[b"key"]).seal(id, &WebhookSecret::mint()),
    };
    assert!(world.store.create_endpoint(new).await.expect("it is made"));
    id
}

async fn event(world: &World) {
    let job = world.submit().await;
    world.cancel(job).await;
}

async fn claim(store: &Store) -> Vec<Claimed> {
    store.claim_deliveries(ROOM).await.expect("claiming runs")
}

async fn record(world: &World, tries: Vec<Try>) -> Vec<Recorded> {
    let recorded = world.store.record_deliveries(tries).await;
    recorded.expect("recording runs")
}

/// Claims what is due and records the same of all of it.
pub(crate) async fn all_end(world: &World, status: u16) -> Vec<Recorded> {
    let claimed = claim(&world.store).await;
    let tries = claimed.iter().map(|one| tried(one, answered(status)));
    record(world, tries.collect()).await
}

async fn shown(world: &World, endpoint: EndpointId) -> (bool, Option<String>) {
    let found = world.store.endpoints(None, Some(endpoint)).await;
    let found = found
        .expect("endpoints are read")
        .pop()
        .expect("it is there");
    (found.enabled, found.disabled_reason)
}

async fn states(world: &World) -> Vec<String> {
    let query = "select state from webhook_deliveries order by event_id";
    world.db.texts(query).await
}

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

#[tokio::test]
async fn a_claim_that_nobody_records_lapses_and_its_late_record_changes_nothing() {
    let world = World::new().await;
    endpoint(&world).await;
    event(&world).await;
    let first = claim(&world.store).await.remove(0);
    world.clock.advance(JUST_WITHIN).await;
    assert!(claim(&world.store).await.is_empty());
    world.clock.advance(Duration::from_micros(1)).await;
    let second = claim(&world.store).await.remove(0);
    assert_eq!(second.event, first.event);
    let late = record(&world, vec![tried(&first, answered(500))]).await;
    assert_eq!(late, [Recorded::TakenOver]);
    let tries = "select count(*) from webhook_tries";
    assert_eq!(world.db.text(tries).await, "0");
    let right = record(&world, vec![tried(&second, answered(200))]).await;
    assert_eq!(right, [Recorded::Succeeded]);
    assert_eq!(states(&world).await, ["succeeded"]);
}

#[tokio::test]
async fn failures_all_through_the_window_switch_an_endpoint_off_once_and_its_owner_is_told() {
    let world = World::new().await;
    let bad = endpoint(&world).await;
    let watching = endpoint_for(&world, &["webhook_endpoint.disabled"]).await;
    let rounds = GIVE_UP_AFTER.as_secs() / (10 * 3_600);
    for round in 0..rounds {
        event(&world).await;
        assert!(shown(&world, bad).await.0, "given up in round {round}");
        all_end(&world, 500).await;
        world.clock.advance(HOUR * 10).await;
    }
    event(&world).await;
    let claimed = claim(&world.store).await;
    let tries: Vec<_> = claimed
        .iter()
        .map(|one| tried(one, answered(500)))
        .collect();
    let outcome = record(&world, tries).await;
    assert!(outcome.contains(&Recorded::Disabled), "{outcome:?}");
    assert_eq!(
        shown(&world, bad).await,
        (false, Some("failing".to_owned()))
    );
    let told = "select body ->> 'reason' from outbox where kind = 'webhook_endpoint.disabled'";
    assert_eq!(world.db.texts(told).await, ["failing"]);
    let news = claim(&world.store).await;
    assert_eq!(news.len(), 1);
    assert_eq!(
        (news[0].endpoint, news[0].kind.as_str()),
        (watching, "webhook_endpoint.disabled")
    );
    // Nothing is sent there any more, and nothing is lost.
    event(&world).await;
    world.clock.advance(HOUR * 24).await;
    let due = claim(&world.store).await;
    assert!(due.iter().all(|one| one.endpoint == watching));
    let held = "select count(*) from webhook_deliveries where state = 'held'";
    assert_ne!(world.db.text(held).await, "0");
    let pending = format!(
        "select count(*) from webhook_deliveries where endpoint_id = '{bad}' and state = 'pending'"
    );
    assert_eq!(world.db.text(&pending).await, "0");
    let on = EndpointChange {
        enabled: Some(true),
        ..EndpointChange::default()
    };
    assert!(
        world
            .store
            .change_endpoint(world.org, bad, on)
            .await
            .unwrap()
    );
    let since = Which::Since(OffsetDateTime::UNIX_EPOCH);
    let again = world.store.redeliver(world.org, bad, since).await.unwrap();
    assert!(
        matches!(again, Redelivered::Queued(count) if count > 1),
        "{again:?}"
    );
    assert!(
        claim(&world.store)
            .await
            .iter()
            .any(|one| one.endpoint == bad)
    );
}

#[tokio::test]
async fn one_success_in_the_window_keeps_an_endpoint_on() {
    let world = World::new().await;
    let shaky = endpoint(&world).await;
    // Eight days of failures, with one success in the middle.
    for round in 0..24 {
        event(&world).await;
        all_end(&world, if round == 12 { 200 } else { 500 }).await;
        assert!(shown(&world, shaky).await.0, "given up in round {round}");
        world.clock.advance(HOUR * 8).await;
    }
}

#[tokio::test]
async fn an_endpoint_that_was_silent_for_days_begins_a_new_count() {
    let world = World::new().await;
    let rare = endpoint(&world).await;
    for _ in 0..5 {
        event(&world).await;
        let claimed = claim(&world.store).await;
        let tries = claimed
            .iter()
            .map(|one| tried(one, Sent::Failed("no".to_owned())));
        record(&world, tries.collect()).await;
        world
            .db
            .execute("update webhook_deliveries set state = 'failed', next_at = null")
            .await;
        world.clock.advance(GIVE_UP_AFTER * 2).await;
    }
    assert!(shown(&world, rare).await.0);
}

#[tokio::test]
async fn a_try_that_trouble_of_ours_prevented_is_no_try() {
    let world = World::new().await;
    endpoint(&world).await;
    event(&world).await;
    let one = claim(&world.store).await.remove(0);
    let outcome = record(&world, vec![tried(&one, Sent::NotSent)]).await;
    assert_eq!(outcome, [Recorded::NotSent]);
    let counted = "select tries || ' ' || round_tries from webhook_deliveries";
    assert_eq!(world.db.text(counted).await, "0 0");
    world.clock.advance(Duration::from_mins(1)).await;
    assert_eq!(claim(&world.store).await.len(), 1);
}

#[tokio::test]
async fn unknown_commits_of_deliveries_do_nothing_twice() {
    for cut in [Cut::Before, Cut::After] {
        let world = World::new().await;
        let bad = endpoint(&world).await;
        event(&world).await;
        let faults = world.store.faults();
        faults.cut_commit("claim_deliveries", cut);
        let claimed = claim(&world.store).await;
        assert_eq!(claimed.len(), 1, "{cut:?}");
        faults.cut_commit("record_deliveries", cut);
        let outcome = record(&world, vec![tried(&claimed[0], answered(500))]).await;
        assert_eq!(outcome, [Recorded::Retried], "{cut:?}");
        let tries = "select count(*) || ' ' || max(number) from webhook_tries";
        assert_eq!(world.db.text(tries).await, "1 1", "{cut:?}");

        world
            .db
            .execute("update webhook_deliveries set state = 'failed', next_at = null")
            .await;
        faults.cut_commit("redeliver", cut);
        let since = Which::Since(OffsetDateTime::UNIX_EPOCH);
        let again = world.store.redeliver(world.org, bad, since).await.unwrap();
        assert_eq!(again, Redelivered::Queued(1), "{cut:?}");

        faults.cut_commit("rotate_secret", cut);
        let rotation = NewSecret {
            org: world.org,
            endpoint: bad,
            secret: Vault::new(&[b"key"]).seal(bad, &WebhookSecret::mint()),
            keep_seconds: 60,
        };
        let until = world.store.rotate_secret(rotation).await.unwrap();
        let now = world.clock.now().await;
        assert_eq!(until, Some(Some(now + time::Duration::MINUTE)), "{cut:?}");

        faults.cut_commit("create_endpoint", cut);
        endpoint(&world).await;
        let count = "select count(*) from webhook_endpoints";
        assert_eq!(world.db.text(count).await, "2", "{cut:?}");
        faults.cut_commit("delete_endpoint", cut);
        assert!(
            world.store.delete_endpoint(world.org, bad).await.unwrap(),
            "{cut:?}"
        );
    }
}

#[tokio::test]
async fn what_is_long_over_is_forgotten_and_what_waits_is_not() {
    let world = World::new().await;
    let id = endpoint(&world).await;
    event(&world).await;
    all_end(&world, 200).await;
    event(&world).await;
    world.clock.advance(HOUR * 24 * 31).await;
    world.mark().await;
    event(&world).await;
    assert_eq!(world.store.prune_deliveries(100).await.unwrap(), 1);
    assert_eq!(states(&world).await, ["pending", "pending"]);
    assert_eq!(
        world.db.text("select count(*) from webhook_tries").await,
        "0"
    );
    assert!(world.store.delete_endpoint(world.org, id).await.unwrap());
    world.clock.advance(HOUR * 24 * 31).await;
    world.mark().await;
    assert_eq!(world.store.prune_deliveries(100).await.unwrap(), 2);
    world.store.prune_deliveries(100).await.unwrap();
    assert_eq!(
        world
            .db
            .text("select count(*) from webhook_endpoints")
            .await,
        "0"
    );
}

#[tokio::test]
async fn a_delivery_that_is_being_sent_is_not_put_back() {
    let world = World::new().await;
    let id = endpoint(&world).await;
    event(&world).await;
    let one = claim(&world.store).await.remove(0);
    let redeliver = |event: OutboxId| world.store.redeliver(world.org, id, Which::One(event));
    assert_eq!(redeliver(one.event).await.unwrap(), Redelivered::Queued(0));
    record(&world, vec![tried(&one, answered(200))]).await;
    assert_eq!(redeliver(one.event).await.unwrap(), Redelivered::Queued(1));
    assert_eq!(
        redeliver(OutboxId::new()).await.unwrap(),
        Redelivered::Unknown
    );
    assert_eq!(claim(&world.store).await.len(), 1);
}
