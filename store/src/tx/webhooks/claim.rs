//! A dispatcher takes deliveries that are due.
//!
//! Locks: endpoints that have any, skipping those that another gateway is looking at (so the limit on
//! what is sent to one at once is exact); then their deliveries, in order of time. Checks: switched
//! on, not asked to be left alone, fewer claims open than allowed: several to an endpoint that works,
//! one to one that fails. Writes: whose claim it is and when it lapses.
//!
//! Nobody can take the room from others by having much to be sent, or by answering slowly: whoever has
//! the fewest claims open comes first, and of those that fail whoever was tried the longest ago.

use fencepost_domain::ids::{EndpointId, OutboxId};
use fencepost_domain::webhook::{AT_ONCE, AT_ONCE_WHILE_FAILING};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::vault::Sealed;

/// How long a claim lasts: twice as long as sending may take. Then any gateway may try.
const CLAIM_FOR: time::Duration = time::Duration::seconds(30);
/// How many endpoints are looked at in one go.
const MOST_ENDPOINTS: i64 = 500;

/// How much a dispatcher can send now.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Deliveries altogether.
    pub all: u32,
    /// Of them, to endpoints that fail: whoever does not answer must not take all the room.
    pub failing: u32,
}

/// A delivery that is to be sent. No `Debug`: the address may be a secret.
#[derive(Clone)]
pub struct Claimed {
    /// Where to.
    pub endpoint: EndpointId,
    /// The event.
    pub event: OutboxId,
    /// The claim to record it under.
    pub claim: Uuid,
    /// The address.
    pub url: String,
    /// What signs it.
    pub secret: Sealed,
    /// What signs it too, for a while.
    pub previous_secret: Option<Sealed>,
    /// Whether the endpoint has failed since it last worked.
    pub is_failing: bool,
    /// What happened.
    pub kind: String,
    /// The state as of the event.
    pub body: Value,
    /// When it happened.
    pub happened_at: OffsetDateTime,
    /// Postgres's clock.
    pub now: OffsetDateTime,
}

impl Store {
    /// Claims deliveries that are due, those of endpoints with the fewest open claims first.
    pub async fn claim_deliveries(&self, room: Room) -> Result<Vec<Claimed>, StoreError> {
        let claim = Uuid::now_v7();
        self.execute(ClaimDeliveries { room, claim }).await
    }
}

struct ClaimDeliveries {
    room: Room,
    /// Made before, so that a second run finds what the first one claimed.
    claim: Uuid,
}

/// An endpoint, locked.
struct Endpoint {
    id: Uuid,
    is_failing: bool,
}

impl Transaction for ClaimDeliveries {
    const NAME: &'static str = "claim_deliveries";
    type Output = Vec<Claimed>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Claimed>, StoreError> {
        let endpoints = lock_endpoints(tx, self.room.failing).await?;
        if endpoints.is_empty() && !tx.rerun {
            return Ok(Vec::new());
        }
        // What an earlier run claimed is still ours; nothing more is taken then.
        if !(tx.rerun && self.is_claimed(tx).await?) {
            self.claim(tx, &endpoints).await?;
        }
        self.read(tx).await
    }
}

/// The endpoints that may be sent something now, at most `failing` of them ones that fail. Those with
/// deliveries are found by hopping from one to the next, however many deliveries each of them has.
async fn lock_endpoints(tx: &mut Tx, failing: u32) -> Result<Vec<Endpoint>, StoreError> {
    let rows = sqlx::query!(
        r#"-- claim_deliveries: lock
        with recursive waiting as (
            (select endpoint_id from webhook_deliveries where next_at is not null
             order by endpoint_id limit 1)
            union all
            select (select d.endpoint_id from webhook_deliveries d
                    where d.next_at is not null and d.endpoint_id > w.endpoint_id
                    order by d.endpoint_id limit 1)
            from waiting w where w.endpoint_id is not null
        ), clock as materialized (
            select authority_now() as now
        ), due as materialized (
            -- with the claims that are open, as far as anybody can see without a lock
            select w.endpoint_id, first.next_at, (
                    select count(*) from webhook_deliveries d
                    where d.endpoint_id = w.endpoint_id and d.claim is not null
                        and d.next_at > clock.now
                        and d.next_at <= clock.now + $3::bigint * interval '1 microsecond') as claims
            from waiting w, clock, lateral (
                select d.next_at from webhook_deliveries d
                where d.endpoint_id = w.endpoint_id and d.next_at <= clock.now
                order by d.next_at limit 1) first
        ), working as materialized (
            select e.id, due.claims, due.next_at from webhook_endpoints e
            join due on due.endpoint_id = e.id, clock
            where e.enabled and (e.rest_until is null or e.rest_until <= clock.now)
                and e.failing_since is null and due.claims < $4
            order by due.claims, due.next_at limit $1
            for no key update of e skip locked
        ), failing as materialized (
            select e.id, due.claims, due.next_at from webhook_endpoints e
            join due on due.endpoint_id = e.id, clock
            where e.enabled and (e.rest_until is null or e.rest_until <= clock.now)
                and e.failing_since is not null and due.claims < $5
            order by e.last_failure_at, e.id limit $2
            for no key update of e skip locked
        )
        select id as "id!", is_failing as "is_failing!" from (
            select *, false as is_failing from working
            union all select *, true from failing) locked
        order by claims, next_at"#,
        MOST_ENDPOINTS,
        i64::from(failing),
        i64::try_from(CLAIM_FOR.whole_microseconds()).unwrap_or(i64::MAX),
        i64::from(AT_ONCE),
        i64::from(AT_ONCE_WHILE_FAILING)
    )
    .fetch_all(&mut **tx)
    .await?;
    tx.point("locked").await;
    let endpoints = rows.into_iter().map(|row| Endpoint {
        id: row.id,
        is_failing: row.is_failing,
    });
    Ok(endpoints.collect())
}

impl ClaimDeliveries {
    async fn is_claimed(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let found = sqlx::query_scalar!(
            r#"-- claim_deliveries: find
            select exists (select from webhook_deliveries
                where next_at is not null and claim = $1) as "found!""#,
            self.claim
        );
        Ok(found.fetch_one(&mut **tx).await?)
    }

    async fn claim(&self, tx: &mut Tx, endpoints: &[Endpoint]) -> Result<(), StoreError> {
        if endpoints.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = endpoints.iter().map(|one| one.id).collect();
        let at_once = endpoints.iter().map(|one| {
            if one.is_failing {
                AT_ONCE_WHILE_FAILING
            } else {
                AT_ONCE
            }
        });
        let at_once: Vec<i32> = at_once.collect();
        sqlx::query!(
            r#"-- claim_deliveries
            with clock as materialized (
                select authority_now() as now
            ), asked as materialized (
                select * from unnest($1::uuid[], $2::int[]) with ordinality
                    as a(endpoint_id, at_once, place)
            ), open as materialized (
                select asked.*, (
                    select count(*) from webhook_deliveries d
                    where d.endpoint_id = asked.endpoint_id and d.claim is not null
                        and d.next_at > clock.now
                        and d.next_at <= clock.now + $5::bigint * interval '1 microsecond')
                    as claims
                from asked, clock
            ), due as materialized (
                select open.place, open.claims, first.* from open, clock, lateral (
                    select d.endpoint_id, d.event_id, d.next_at from webhook_deliveries d
                    where d.endpoint_id = open.endpoint_id and d.next_at <= clock.now
                    order by d.next_at limit greatest(open.at_once - open.claims, 0)
                    for no key update skip locked) first
            ), picked as materialized (
                -- one of each before a second one of anybody
                select endpoint_id, event_id from due
                order by claims + row_number() over (partition by endpoint_id order by next_at), place
                limit $3
            )
            update webhook_deliveries d set claim = $4,
                next_at = clock.now + $5::bigint * interval '1 microsecond'
            from picked, clock
            where d.endpoint_id = picked.endpoint_id and d.event_id = picked.event_id
                and d.next_at <= clock.now"#,
            &ids,
            &at_once,
            i64::from(self.room.all),
            self.claim,
            i64::try_from(CLAIM_FOR.whole_microseconds()).unwrap_or(i64::MAX)
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    async fn read(&self, tx: &mut Tx) -> Result<Vec<Claimed>, StoreError> {
        let rows = sqlx::query!(
            r#"-- claim_deliveries: read
            select e.id, d.event_id, e.url, e.secret, e.failing_since is not null as "is_failing!",
                case when e.previous_secret_until > now then e.previous_secret end
                    as previous_secret,
                o.kind, o.body, o.created_at, now as "now!"
            from webhook_deliveries d join webhook_endpoints e on e.id = d.endpoint_id
            join outbox o on o.id = d.event_id, authority_now() now
            where d.next_at is not null and d.claim = $1
            order by d.created_at, d.event_id"#,
            self.claim
        )
        .fetch_all(&mut **tx)
        .await?;
        let claimed = rows.into_iter().map(|row| Claimed {
            endpoint: EndpointId(row.id),
            event: OutboxId(row.event_id),
            claim: self.claim,
            url: row.url,
            secret: Sealed(row.secret),
            previous_secret: row.previous_secret.map(Sealed),
            is_failing: row.is_failing,
            kind: row.kind,
            body: row.body,
            happened_at: row.created_at,
            now: row.now,
        });
        Ok(claimed.collect())
    }
}
