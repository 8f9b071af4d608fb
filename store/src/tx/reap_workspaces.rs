//! Workspaces whose time is over are reaped by their devices.
//!
//! Locks: workspaces, by handle, skipping what another gateway is sending. Writes: to which session
//! and when a device was told, so that it is told once per session and again after a while, until it
//! says that the workspace is gone.

use fencepost_domain::ids::{DeviceId, SessionNumber};
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// How long a device has to answer before it is told again.
const AGAIN_AFTER: time::Duration = time::Duration::seconds(30);

/// A workspace that a device is to reap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reap {
    /// The device.
    pub device: DeviceId,
    /// What it calls the workspace.
    pub handle: String,
}

impl Store {
    /// Up to `limit` workspaces that the devices of these sessions are to be told to reap now.
    pub async fn claim_reaps(
        &self,
        connected: Vec<(DeviceId, SessionNumber)>,
        limit: u32,
    ) -> Result<Vec<Reap>, StoreError> {
        let limit = i64::from(limit);
        self.execute(ClaimReaps { connected, limit }).await
    }

    /// A device says that workspaces of its are gone; for each, whether that was known. What was
    /// never recorded is as good as gone.
    pub async fn reaped(&self, reaped: Vec<Reap>) -> Result<Vec<bool>, StoreError> {
        self.execute(Reaped { reaped }).await
    }
}

struct ClaimReaps {
    connected: Vec<(DeviceId, SessionNumber)>,
    limit: i64,
}

impl Transaction for ClaimReaps {
    const NAME: &'static str = "claim_reaps";
    type Output = Vec<Reap>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Reap>, StoreError> {
        let devices: Vec<Uuid> = self.connected.iter().map(|one| one.0.0).collect();
        let sessions: Vec<i64> = self.connected.iter().map(|one| one.1.0).collect();
        let rows = sqlx::query!(
            r#"-- claim_reaps
            with asked as materialized (
                select * from unnest($1::uuid[], $2::bigint[]) as a(device_id, session)
            ), due as materialized (
                select w.handle, a.session from workspaces w join asked a using (device_id)
                where w.reaped_at is null and w.reap_after <= authority_now()
                    and (w.sent_at is null or w.sent_session <> a.session
                        or w.sent_at <= authority_now() - $4::bigint * interval '1 microsecond')
                order by w.handle limit $3 for no key update of w skip locked
            )
            update workspaces w set sent_at = authority_now(), sent_session = due.session
            from due where w.handle = due.handle and w.reaped_at is null
            returning w.device_id, w.handle"#,
            &devices,
            &sessions,
            self.limit,
            i64::try_from(AGAIN_AFTER.whole_microseconds()).unwrap_or(i64::MAX)
        )
        .fetch_all(&mut **tx)
        .await?;
        let reaps = rows.into_iter().map(|row| Reap {
            device: DeviceId(row.device_id),
            handle: row.handle,
        });
        Ok(reaps.collect())
    }
}

struct Reaped {
    reaped: Vec<Reap>,
}

impl Transaction for Reaped {
    const NAME: &'static str = "reaped";
    type Output = Vec<bool>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<bool>, StoreError> {
        let devices: Vec<Uuid> = self.reaped.iter().map(|one| one.device.0).collect();
        let handles: Vec<String> = self.reaped.iter().map(|one| one.handle.clone()).collect();
        let rows = sqlx::query!(
            r#"-- reaped
            with said as materialized (
                select * from unnest($1::uuid[], $2::text[]) as s(device_id, handle)
            ), mine as materialized (
                select w.handle, w.device_id, w.reaped_at from workspaces w
                where (w.device_id, w.handle) in (select device_id, handle from said)
                order by w.handle for no key update of w
            ), gone as (
                update workspaces w set reaped_at = authority_now()
                from mine where w.handle = mine.handle and mine.reaped_at is null
            )
            select device_id, handle from mine where reaped_at is not null"#,
            &devices,
            &handles
        )
        .fetch_all(&mut **tx)
        .await?;
        let known = |one: &Reap| {
            let mut rows = rows.iter();
            rows.any(|row| (row.device_id, &row.handle) == (one.device.0, &one.handle))
        };
        // An earlier run of this very transaction may be who wrote it.
        let known = self.reaped.iter().map(|one| known(one) && !tx.rerun);
        Ok(known.collect())
    }
}
