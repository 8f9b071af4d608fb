//! The rows that tries are recorded in: locked, found, written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fencepost_domain::webhook::Failing;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{RecordDeliveries, Recorded, Try};
use crate::error::StoreError;
use crate::run::Tx;
use crate::tx::webhooks::disable::Reason;

/// An endpoint, locked.
pub(super) struct Endpoint {
    pub(super) enabled: bool,
    pub(super) failing: Option<Failing>,
    pub(super) rest_until: Option<OffsetDateTime>,
    pub(super) is_changed: bool,
    pub(super) hopeless: Option<Reason>,
}

/// A delivery, locked.
pub(super) struct Delivery {
    pub(super) claim: Option<Uuid>,
    pub(super) tries: i32,
    pub(super) round_tries: i32,
}

pub(super) type Key = (Uuid, Uuid);

/// What is written of a delivery.
#[derive(Serialize)]
pub(super) struct Write {
    pub(super) endpoint_id: Uuid,
    pub(super) event_id: Uuid,
    pub(super) claim: Uuid,
    pub(super) state: &'static str,
    pub(super) wait_micros: Option<i64>,
    /// Null if it was no try.
    pub(super) outcome: Option<&'static str>,
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) duration_ms: i32,
}

impl RecordDeliveries {
    pub(super) async fn lock_endpoints(
        &self,
        tx: &mut Tx,
    ) -> Result<BTreeMap<Uuid, Endpoint>, StoreError> {
        let ids: BTreeSet<Uuid> = self.tries.iter().map(|one| one.endpoint.0).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let rows = sqlx::query!(
            r#"-- record_deliveries: endpoints
            select id, enabled, failing_since, last_failure_at, rest_until from webhook_endpoints
            where id = any($1) order by id for no key update"#,
            &ids
        )
        .fetch_all(&mut **tx)
        .await?;
        let endpoints = rows.into_iter().map(|row| {
            let failing = row.failing_since.zip(row.last_failure_at);
            let endpoint = Endpoint {
                enabled: row.enabled,
                failing: failing.map(|(since, last)| Failing { since, last }),
                rest_until: row.rest_until,
                is_changed: false,
                hopeless: None,
            };
            (row.id, endpoint)
        });
        Ok(endpoints.collect())
    }

    pub(super) async fn lock_deliveries(
        &self,
        tx: &mut Tx,
    ) -> Result<HashMap<Key, Delivery>, StoreError> {
        let (endpoints, events): (Vec<Uuid>, Vec<Uuid>) = self.tries.iter().map(Try::key).unzip();
        let rows = sqlx::query!(
            r#"-- record_deliveries: lock
            select endpoint_id, event_id, claim, tries, round_tries from webhook_deliveries
            where (endpoint_id, event_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            order by endpoint_id, event_id for no key update"#,
            &endpoints,
            &events
        )
        .fetch_all(&mut **tx)
        .await?;
        tx.point("locked").await;
        let deliveries = rows.into_iter().map(|row| {
            let delivery = Delivery {
                claim: row.claim,
                tries: row.tries,
                round_tries: row.round_tries,
            };
            ((row.endpoint_id, row.event_id), delivery)
        });
        Ok(deliveries.collect())
    }

    /// The tries that an earlier run recorded.
    pub(super) async fn find(
        &self,
        tx: &mut Tx,
    ) -> Result<HashMap<(Key, Uuid), Recorded>, StoreError> {
        let (endpoints, events): (Vec<Uuid>, Vec<Uuid>) = self.tries.iter().map(Try::key).unzip();
        let rows = sqlx::query!(
            r#"-- record_deliveries: find
            select endpoint_id, event_id, claim, outcome from webhook_tries
            where (endpoint_id, event_id) in (select * from unnest($1::uuid[], $2::uuid[]))"#,
            &endpoints,
            &events
        )
        .fetch_all(&mut **tx)
        .await?;
        let found = rows.into_iter().filter_map(|row| {
            let mut all = Recorded::ALL.into_iter();
            let outcome = all.find(|outcome| outcome.as_str() == row.outcome)?;
            Some((((row.endpoint_id, row.event_id), row.claim), outcome))
        });
        Ok(found.collect())
    }
}

/// After the locks.
pub(super) async fn read_clock(tx: &mut Tx) -> Result<OffsetDateTime, StoreError> {
    let now = sqlx::query_scalar!(
        r#"-- record_deliveries: clock
        select authority_now() as "now!""#
    );
    Ok(now.fetch_one(&mut **tx).await?)
}

pub(super) async fn write_tries(
    tx: &mut Tx,
    now: OffsetDateTime,
    writes: &[Write],
) -> Result<(), StoreError> {
    if writes.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(writes)
        .map_err(|error| StoreError::inconsistent("webhook_deliveries", error.to_string()))?;
    let written = sqlx::query_scalar!(
        r#"-- record_deliveries
        with input as materialized (
            select * from jsonb_to_recordset($1) as i(
                endpoint_id uuid, event_id uuid, claim uuid, state text, wait_micros bigint,
                outcome text, status int, error text, answer text, duration_ms int)
        ), moved as (
            update webhook_deliveries d set state = i.state, claim = null,
                tries = d.tries + (i.outcome is not null)::int,
                round_tries = d.round_tries + (i.outcome is not null)::int,
                next_at = case when i.state = 'pending'
                    then $2::timestamptz + i.wait_micros * interval '1 microsecond' end
            from input i
            where d.endpoint_id = i.endpoint_id and d.event_id = i.event_id and d.claim = i.claim
            returning d.endpoint_id, d.event_id, d.tries
        ), tried as (
            insert into webhook_tries (endpoint_id, event_id, number, claim, outcome, status, error,
                answer, duration_ms, at)
            select i.endpoint_id, i.event_id, moved.tries, i.claim, i.outcome, i.status, i.error,
                i.answer, i.duration_ms, $2
            from input i join moved using (endpoint_id, event_id) where i.outcome is not null
        )
        select count(*) as "written!" from moved"#,
        input,
        now
    )
    .fetch_one(&mut **tx)
    .await?;
    if usize::try_from(written) == Ok(writes.len()) {
        Ok(())
    } else {
        let what = format!("recorded {written} tries of {}", writes.len());
        Err(StoreError::inconsistent("webhook_deliveries", what))
    }
}

pub(super) async fn write_endpoints(
    tx: &mut Tx,
    endpoints: &BTreeMap<Uuid, Endpoint>,
) -> Result<(), StoreError> {
    let changed: Vec<_> = endpoints
        .iter()
        .filter(|(_, endpoint)| endpoint.is_changed)
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = changed.iter().map(|(id, _)| **id).collect();
    let since: Vec<_> = changed
        .iter()
        .map(|(_, one)| one.failing.map(|failing| failing.since))
        .collect();
    let last: Vec<_> = changed
        .iter()
        .map(|(_, one)| one.failing.map(|failing| failing.last))
        .collect();
    let rest: Vec<_> = changed.iter().map(|(_, one)| one.rest_until).collect();
    sqlx::query!(
        r#"-- record_deliveries: endpoints failing
        update webhook_endpoints e set failing_since = i.since, last_failure_at = i.last,
            rest_until = i.rest
        from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[])
            as i(id, since, last, rest)
        where e.id = i.id"#,
        &ids,
        &since as &[Option<OffsetDateTime>],
        &last as &[Option<OffsetDateTime>],
        &rest as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
