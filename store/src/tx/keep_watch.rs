//! A sweep begins and ends: how we notice that *we* were away.
//!
//! Leases that ran out in a gap between sweeps of at least twice a lease's length are nobody's fault:
//! there was no gateway to renew them. Locks: none to begin; the one row of `authority_state` to end.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::leap::Leap;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Share, Store, Transaction, Tx};

/// A time for whose losses nobody can be blamed: nobody swept, or the clock leapt over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The end of the last sweep before it.
    pub from: OffsetDateTime,
    /// When it was noticed.
    pub to: OffsetDateTime,
}

/// A sweep that begins.
#[derive(Debug, Clone, Copy)]
pub struct SweepBegin {
    /// What the clock shows.
    pub now: OffsetDateTime,
    /// The outage that the sweep ends, if there was one.
    pub outage: Option<Outage>,
}

impl From<Leap> for Outage {
    fn from(Leap { from, to }: Leap) -> Self {
        Self { from, to }
    }
}

impl Outage {
    /// Whether a lease that ended at `expires_at` ended in it.
    pub fn covers(&self, expires_at: OffsetDateTime) -> bool {
        self.from < expires_at && expires_at <= self.to
    }

    fn between(from: OffsetDateTime, to: OffsetDateTime, ttl: LeaseDuration) -> Option<Self> {
        (to - from >= ttl.signed() * 2).then_some(Self { from, to })
    }

    /// The one that `now` ends, if there is one.
    pub(super) async fn since_last_sweep(
        tx: &mut Tx,
        now: OffsetDateTime,
    ) -> Result<Option<Self>, StoreError> {
        let from = sqlx::query_scalar!("-- since_last_sweep\nselect swept_at from authority_state");
        let from = from.fetch_one(&mut **tx).await?;
        Ok(Self::between(from, now, tx.settings.lease_ttl))
    }
}

impl Store {
    /// Begins a sweep.
    pub async fn begin_sweep(&self) -> Result<SweepBegin, StoreError> {
        let ttl = self.settings().lease_ttl;
        let (from, now) = self
            .read_reserved("begin_sweep", |mut conn| async move {
                let row = sqlx::query!(
                    r#"-- begin_sweep
                    select swept_at, authority_now() as "now!" from authority_state"#
                );
                let row = row.fetch_one(&mut *conn).await?;
                Ok((row.swept_at, row.now))
            })
            .await?;
        let outage = Outage::between(from, now, ttl);
        Ok(SweepBegin { now, outage })
    }

    /// Ends a sweep that looked, at that time, at everything that was due.
    pub async fn finish_sweep(&self, looked_at: OffsetDateTime) -> Result<(), StoreError> {
        self.execute(FinishSweep { looked_at }).await
    }
}

struct FinishSweep {
    looked_at: OffsetDateTime,
}

impl Transaction for FinishSweep {
    const NAME: &'static str = "finish_sweep";
    const SHARE: Share = Share::Reserved;
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        // At most once a second, whoever sweeps: the gap that matters is much longer. A clock that
        // was ahead and came back has written an end that is yet to come.
        sqlx::query!(
            r#"-- finish_sweep
            with clock as materialized (select authority_mark() as mark, authority_now() as now)
            update authority_state set swept_at = $1 from clock
            where (swept_at < $1::timestamptz - interval '1 second' or swept_at > clock.now)
                and clock.now >= clock.mark"#,
            self.looked_at
        )
        .execute(&mut **tx)
        .await?;
        if let Some(gateway) = tx.gateway {
            say_that_it_runs(tx, gateway).await?;
        }
        Ok(())
    }
}

/// Nothing is decided by it but whether a device is shown, and taken over, as a connected one, and with
/// whom a gateway that begins must agree. One that has ended does not come back by a last sweep.
async fn say_that_it_runs(tx: &mut Tx, gateway: Uuid) -> Result<(), StoreError> {
    sqlx::query!(
        r#"-- keep_watch: this gateway runs
        with gone as (
            delete from gateways where seen_at < authority_now() - interval '1 day' and id <> $1
        )
        update gateways set seen_at = authority_now()
        where id = $1 and (seen_at < authority_now() - interval '1 second'
            or seen_at > authority_now())"#,
        gateway
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
