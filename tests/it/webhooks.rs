//! Deliveries as rows: who may take one, how often, and when an endpoint is given up.

use std::time::Duration;

use fencepost_domain::ids::{EndpointId, OutboxId};
use fencepost_domain::webhook::GIVE_UP_AFTER;
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
pub(crate) const HOUR: Duration = Duration::from_hours(1);
/// Longer than a claim lasts.
pub(crate) const CLAIM: Duration = Duration::from_secs(30);
const JUST_WITHIN: Duration = Duration::from_micros(29_999_999);

pub(crate) fn answered(status: u16) -> Sent {
    Sent::Answered {
        status,
        retry_after: None,
        body: "so".to_owned(),
    }
}

pub(crate) fn tried(one: &Claimed, sent: Sent) -> Try {
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

pub(crate) async fn event(world: &World) {
    let job = world.submit().await;
    world.cancel(job).await;
}

pub(crate) async fn claim(store: &Store) -> Vec<Claimed> {
    store.claim_deliveries(ROOM).await.expect("claiming runs")
}

pub(crate) async fn record(world: &World, tries: Vec<Try>) -> Vec<Recorded> {
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
