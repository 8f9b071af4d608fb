//! An operator says that the clock is right, whatever its mark says.
//!
//! Locks: the row of `authority_state`, which nobody waits for while holding another lock; then the
//! jobs and attempts of all live leases, by id; then ledger accounts. Checks: an earlier run of the
//! same transaction. Writes: the end of every live lease, uncharged and with a new epoch, for nobody
//! can know any more when they end (one that is committing goes on: it hangs on no lease); the mark;
//! a line of the audit log.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::{Cause, decide};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::finish::{Finish, finish};
use crate::admin::Actor;
use crate::admin::audit::AuditLine;
use crate::error::StoreError;
use crate::fence::WhereFacts;
use crate::rows::{LockedPairs, PairRecord, select_pairs};
use crate::run::{Store, Transaction, Tx};

const MESSAGE: &str = "an operator accepted the clock, which ends every lease";

/// What accepting the clock did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedClock {
    /// Where the mark was.
    #[serde(with = "time::serde::rfc3339")]
    pub mark_before: OffsetDateTime,
    /// Where it is: what the clock showed.
    #[serde(with = "time::serde::rfc3339")]
    pub mark: OffsetDateTime,
    /// How many leases were ended.
    pub leases_ended: usize,
}

impl Store {
    /// Takes the clock as it is for right: ends all live leases uncharged, and sets the mark to now,
    /// also backward. What the clock wrote while it was ahead is brought back.
    pub async fn accept_clock(&self, actor: &Actor) -> Result<AcceptedClock, StoreError> {
        let line = AuditLine::new(actor, "clock.accept", &"clock");
        let accepted = self.execute(AcceptClock { line }).await?;
        self.pull_back().await?;
        Ok(accepted)
    }
}

struct AcceptClock {
    line: AuditLine,
}

impl Transaction for AcceptClock {
    const NAME: &'static str = "accept_clock";
    type Output = AcceptedClock;

    async fn run(&self, tx: &mut Tx) -> Result<AcceptedClock, StoreError> {
        let mark_before = sqlx::query_scalar!(
            r#"-- accept_clock: lock
            select marked_at from authority_state for no key update"#
        )
        .fetch_one(&mut **tx)
        .await?;
        // An earlier run that was still committing held that lock: now its line can be seen.
        if let Some(detail) = self.line.written(tx).await? {
            return serde_json::from_value(detail)
                .map_err(|error| StoreError::inconsistent("audit_log", error.to_string()));
        }
        let live = lock_live(tx).await?;
        let ends = live.pairs.iter().map(|pair| {
            let ending = decide(&pair.job.facts, Cause::ClockAccepted, live.now);
            let facts = WhereFacts::of_row(&pair.attempt.fence);
            Finish::attempt(pair, facts, &ending).message(MESSAGE)
        });
        let ended = finish(tx, live.now, ends.collect()).await?;
        let accepted = AcceptedClock {
            mark_before,
            mark: set_mark(tx).await?,
            leases_ended: ended.len(),
        };
        let detail = serde_json::to_value(accepted)
            .map_err(|error| StoreError::inconsistent("audit_log", error.to_string()))?;
        self.line.write(tx, detail).await?;
        Ok(accepted)
    }
}

async fn lock_live(tx: &mut Tx) -> Result<LockedPairs, StoreError> {
    let records = select_pairs!(
        r#"-- accept_clock: lock leases
        with live as materialized (
            select id, job_id from attempts where ended_at is null and status::text <> $1
        ), j as materialized (
            select * from jobs where id in (select job_id from live)
            order by id for no key update
        ), a as materialized (
            select attempts.* from attempts, (select count(*) from j) jobs_are_locked
            where id in (select live.id from live) and ended_at is null
                and status::text <> $1
            order by id for no key update of attempts
        ), "#,
        AttemptStatus::Committing.as_str()
    )
    .fetch_all(&mut **tx)
    .await?;
    tx.point("locked").await;
    PairRecord::into_pairs(records)
}

/// The mark is where the clock is, and so is the last sweep: what lies between is nobody's outage.
async fn set_mark(tx: &mut Tx) -> Result<OffsetDateTime, StoreError> {
    let mark = sqlx::query_scalar!(
        r#"-- accept_clock: mark
        with clock as materialized (select authority_now() as now)
        update authority_state set marked_at = clock.now, swept_at = clock.now from clock
        returning marked_at"#
    );
    Ok(mark.fetch_one(&mut **tx).await?)
}
