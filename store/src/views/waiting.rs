//! Why queued jobs do not run: what their lanes need, against what the devices have now.

use fencepost_domain::ids::OrgId;
use fencepost_domain::waiting::{QueueFacts, Waiting};
use uuid::Uuid;

use super::health::Closed;
use crate::error::StoreError;
use crate::run::Store;

/// Of so many devices of a lane that get new work it is asked how they fare.
const LOOKED_AT: i32 = 20;

/// What one lane needs and has.
struct LaneRow {
    max_live_attempts: Option<i64>,
    live: i64,
    capable: i64,
    connected: i64,
    open: i64,
    free: i64,
    some_open: Vec<Uuid>,
    missing: Vec<String>,
}

impl LaneRow {
    fn why(self, closed: &Closed) -> Option<Waiting> {
        // Of more devices than were looked at, some will be well.
        let is_closed = i64::try_from(self.some_open.len()) == Ok(self.open)
            && self.some_open.iter().all(|device| closed.contains(*device));
        Waiting::decide(QueueFacts {
            org_limit: self.max_live_attempts.map(|limit| (self.live, limit)),
            capable: self.capable,
            connected: self.connected,
            open: if is_closed { 0 } else { self.open },
            free: self.free,
            missing: self.missing,
        })
    }
}

impl Store {
    /// Why a job of each (org, lane) waits, in order; `None` where nothing stands in the way of the
    /// next round.
    pub async fn waiting(
        &self,
        asked: Vec<(OrgId, String)>,
    ) -> Result<Vec<Option<Waiting>>, StoreError> {
        let mut distinct = asked.clone();
        distinct.sort();
        distinct.dedup();
        let orgs: Vec<_> = distinct.iter().map(|(org, _)| org.0).collect();
        let lanes: Vec<_> = distinct.iter().map(|(_, lane)| lane.clone()).collect();
        let rows = self
            .read("waiting", move |mut conn| async move {
                sqlx::query_as!(
                    LaneRow,
                    r#"-- waiting
                    with d as materialized (
                        select id, words, draining, slots,
                            (current_session is not null and disconnected_at is null
                                and gateway_runs(gateway_id)) as connected
                        from devices where enabled
                    )
                    select o.max_live_attempts,
                        (select count(*) from attempts a
                         where a.org_id = o.id and a.ended_at is null) as "live!",
                        able.capable as "capable!", able.connected as "connected!",
                        able.open as "open!", able.free as "free!",
                        coalesce(able.some_open, '{}') as "some_open!",
                        coalesce(nearest.missing, asked.words) as "missing!"
                    from (
                        select place, org_id, string_to_array(lane, ' ') as words
                        from unnest($1::uuid[], $2::text[]) with ordinality
                            as a(org_id, lane, place)
                    ) asked
                    join orgs o on o.id = asked.org_id
                    cross join lateral (
                        select count(*) as capable, count(*) filter (where connected) as connected,
                            count(*) filter (where connected and not draining) as open,
                            count(*) filter (where connected and not draining
                                and slots > (select count(*) from attempts a
                                    where a.device_id = d.id and a.ended_at is null)) as free,
                            (array_agg(d.id) filter (where connected and not draining))[:$3]
                                as some_open
                        from d where asked.words <@ d.words
                    ) able
                    left join lateral (
                        select array(select word from unnest(asked.words) word
                                     where word <> all(d.words)) as missing
                        from d where able.connected = 0
                        order by cardinality(array(select word from unnest(asked.words) word
                                                   where word <> all(d.words))) limit 1
                    ) nearest on true
                    order by asked.place"#,
                    &orgs,
                    &lanes,
                    LOOKED_AT
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let open = rows.iter().flat_map(|row| row.some_open.iter().copied());
        let closed = self.closed_devices(open.collect()).await?;
        let why: Vec<_> = rows.into_iter().map(|row| row.why(&closed)).collect();
        let of = |one| {
            let place = distinct.binary_search(one).ok()?;
            why.get(place)?.clone()
        };
        Ok(asked.iter().map(of).collect())
    }
}
