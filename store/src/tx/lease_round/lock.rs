//! The first statement: devices that may be leased to, and the orgs that have jobs for them.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_domain::clock::ClockReading;
use serde::Deserialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Cursor, LeaseRound, MAX_PAIRS, read_json};
use crate::error::StoreError;
use crate::run::Tx;

/// What the first statement locked and found.
pub(super) struct Locked {
    pub(super) devices: Vec<LockedDevice>,
    pub(super) orgs: Vec<LockedOrg>,
    pub(super) pairs: Vec<ServablePair>,
    pub(super) due: bool,
    pub(super) regressed_by: Option<Duration>,
    /// By which the whole round decides: nothing is waited for after it was read.
    pub(super) now: OffsetDateTime,
    pub(super) cursor: Cursor,
}

#[derive(Deserialize)]
pub(super) struct LockedDevice {
    pub(super) id: Uuid,
    pub(super) slots: i64,
    pub(super) words: BTreeSet<String>,
}

#[derive(Deserialize)]
pub(super) struct LockedOrg {
    pub(super) id: Uuid,
    pub(super) max_live_attempts: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct ServablePair {
    pub(super) lane: String,
    pub(super) org_id: Uuid,
}

impl LeaseRound {
    #[expect(clippy::too_many_lines, reason = "one statement")]
    pub(super) async fn lock_rooms(&self, tx: &mut Tx) -> Result<Locked, StoreError> {
        let devices: Vec<Uuid> = self.pulls.iter().map(|pull| pull.device.0).collect();
        let sessions: Vec<i64> = self.pulls.iter().map(|pull| pull.session.0).collect();
        let claimed_words = self.claim.as_ref().map(|claim| claim.words.as_slice());
        let max_orgs = i64::try_from(self.seeds.len() * 2).unwrap_or(i64::MAX);
        let row = sqlx::query!(
            r#"-- lease_round: lock
            with recursive pairs as (
                -- a walk along the index that touches one entry of each (lane, org)
                (select lane, org_id, 1 as place from jobs
                 where queue_key is not null and (lane, org_id) > ($3, $4)
                 order by lane, org_id limit 1)
                union all
                select next.lane, next.org_id, pairs.place + 1
                from pairs cross join lateral (
                    select lane, org_id from jobs
                    where queue_key is not null and (lane, org_id) > (pairs.lane, pairs.org_id)
                    order by lane, org_id limit 1
                ) next
                where pairs.place < $5
            ), d as materialized (
                -- a device that can run nothing of what waits is not even locked
                select devices.id, devices.slots, coalesce($7, devices.words) as words
                from devices
                join unnest($1::uuid[], $2::bigint[]) as p(device_id, session)
                    on p.device_id = devices.id
                where (devices.current_session = p.session or $7 is not null)
                    and devices.enabled and not devices.draining
                    and exists (select from pairs
                                where string_to_array(pairs.lane, ' ') <@ coalesce($7, devices.words))
                order by devices.id for no key update of devices
            ), servable as materialized (
                select lane, org_id, place from pairs
                where exists (select from d where string_to_array(pairs.lane, ' ') <@ d.words)
            ), o as materialized (
                select id, max_live_attempts from orgs
                where id in (select org_id from servable group by org_id
                             order by min(place) limit $6)
                    and (select count(*) from d) > 0
                order by id for no key update
            ), clock as materialized (
                select authority_mark() as mark, authority_now() as now
                from (select count(*) from o) all_are_locked
            )
            select coalesce((select jsonb_agg(d) from d), '[]') as "devices!",
                coalesce((select jsonb_agg(o) from o), '[]') as "orgs!",
                coalesce((select jsonb_agg(servable) from servable
                          where org_id in (select id from o)), '[]') as "pairs!",
                (select count(*) from pairs) as "seen!",
                (select lane from pairs order by place desc limit 1) as last_lane,
                (select org_id from pairs order by place desc limit 1) as last_org,
                (exists (select from attempts where ended_at is null and check_after <= clock.now)
                 or exists (select from jobs where wake_at <= clock.now)) as "due!",
                clock.mark as "mark!", clock.now as "now!"
            from clock"#,
            &devices,
            &sessions,
            self.cursor.lane,
            self.cursor.org,
            MAX_PAIRS,
            max_orgs,
            claimed_words
        )
        .fetch_one(&mut **tx)
        .await?;
        tx.point("locked").await;
        // Fewer than the bound means that the walk reached the end: begin anew.
        let cursor = match (row.last_lane, row.last_org) {
            (Some(lane), Some(org)) if row.seen >= i64::from(MAX_PAIRS) => Cursor { lane, org },
            _ => Cursor::default(),
        };
        Ok(Locked {
            devices: read_json(row.devices)?,
            orgs: read_json(row.orgs)?,
            pairs: read_json(row.pairs)?,
            due: row.due,
            regressed_by: ClockReading {
                now: row.now,
                mark: row.mark,
            }
            .regressed_by(),
            now: row.now,
            cursor,
        })
    }
}
