//! What time does to live attempts: leases end, graces end, verifications are taken over.
//!
//! Locks: jobs, then attempts, by id, skipping what others hold (the next sweep sees it). Checks:
//! everything again under the lock, by the clock read after it. Writes: ends, verification epochs,
//! and when to look next. It takes no input but a bound, so running it twice, late or on two
//! gateways does no harm, and it needs to know nothing of any service. While the clock is behind its
//! mark nothing is judged.

use std::time::Duration;

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::job::JobStatus;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::begin_verification::VerificationTicket;
use super::finish::{Finish, finish};
use super::keep_watch::Outage;
use super::return_offers::with_returns;
use super::settle_commit::is_last;
use crate::error::StoreError;
use crate::fence::WhereFacts;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{LockedPairs, Pair, PairRecord, select_pairs, sql_time};
use crate::run::{Share, Store, Transaction, Tx};

/// What a sweep did.
#[derive(Debug)]
pub struct SweepReport {
    /// Attempts that ended.
    pub ended: Vec<FinalizedAttempt>,
    /// Verifications that this gateway may do now.
    pub verify: Vec<VerificationTicket>,
    /// How many rows were due, to tell whether there may be more.
    pub due: usize,
    /// The clock by which everything that was due was looked at; `None` if some of it was left out,
    /// because others hold it or there is too much.
    pub looked_at: Option<OffsetDateTime>,
    /// The clock is behind its mark by this much: nothing ends, or is picked up, for so long.
    pub clock_regressed_by: Option<Duration>,
}

impl Store {
    /// Looks at up to `limit` attempts that are due. Verifications are picked up only for
    /// `services` (a gateway verifies only what it knows).
    pub async fn expire_due(
        &self,
        limit: u32,
        services: &[&str],
    ) -> Result<SweepReport, StoreError> {
        let look = Look::AtLeases;
        self.expire(limit, services, look).await
    }

    /// The same after outages of ours: leases that ended in one are lost, but charged to nobody.
    pub async fn expire_due_after(
        &self,
        limit: u32,
        services: &[&str],
        outages: impl IntoIterator<Item = Outage>,
    ) -> Result<SweepReport, StoreError> {
        let look = Look::AtOurselvesToo(outages.into_iter().collect());
        self.expire(limit, services, look).await
    }

    async fn expire(
        &self,
        limit: u32,
        services: &[&str],
        look: Look,
    ) -> Result<SweepReport, StoreError> {
        let services = services.iter().map(|&name| name.to_owned()).collect();
        let limit = i64::from(limit);
        let draft = self
            .execute(ExpireDue {
                limit,
                services,
                look,
            })
            .await?;
        Ok(SweepReport {
            ended: draft
                .ended
                .into_iter()
                .map(FinalizedAttempt::after_commit)
                .collect(),
            verify: draft.verify,
            due: draft.due,
            looked_at: draft.looked_at,
            clock_regressed_by: draft.clock_regressed_by,
        })
    }
}

struct ExpireDue {
    limit: i64,
    services: Vec<String>,
    look: Look,
}

/// Whether leases may have run out because *we* were away.
#[derive(Debug, Clone)]
enum Look {
    AtLeases,
    /// The outages that the sweep knew of when it began. Another one may have come since.
    AtOurselvesToo(Vec<Outage>),
}

struct Draft {
    ended: Vec<Ended>,
    verify: Vec<VerificationTicket>,
    due: usize,
    looked_at: Option<OffsetDateTime>,
    clock_regressed_by: Option<Duration>,
}

/// A row that lives on.
#[derive(Serialize)]
struct Onward {
    attempt_id: Uuid,
    epoch: i64,
    verification_epoch: i64,
    pick_up: bool,
    check_after: String,
}

impl Transaction for ExpireDue {
    const NAME: &'static str = "expire_due";
    const SHARE: Share = Share::Reserved;
    type Output = Draft;

    async fn run(&self, tx: &mut Tx) -> Result<Draft, StoreError> {
        let locked = lock_due(tx, self.limit).await?;
        let mut draft = Draft {
            ended: Vec::new(),
            verify: Vec::new(),
            due: 0,
            looked_at: None,
            clock_regressed_by: None,
        };
        if let Some(by) = locked.clock().regressed_by() {
            draft.clock_regressed_by = Some(by);
            return Ok(draft);
        }
        draft.due = locked.pairs.len();
        draft.looked_at = (!leaves_out(tx, &locked).await?).then_some(locked.now);
        let outages = self.outages(tx, locked.now).await?;
        let (mut ends, mut onward) = (Vec::new(), Vec::new());
        for pair in &locked.pairs {
            match self.judge_time(tx, pair, locked.now, &outages) {
                Verdict::End(cause) => {
                    let facts = WhereFacts::of_row(&pair.attempt.fence);
                    let job = if cause == Cause::Returned {
                        with_returns(tx, pair).await?
                    } else {
                        pair.job.facts
                    };
                    let ending = decide(&job, cause, locked.now);
                    let end = Finish::attempt(pair, facts, &ending)
                        .in_verification(pair.attempt.verification_epoch);
                    ends.push(end.message(explain(cause)));
                }
                Verdict::PickUp => {
                    let epoch = pair.attempt.verification_epoch + 1;
                    let until = locked.now + tx.settings.verification_takeover.signed();
                    onward.push(onward_row(pair, until, true));
                    let declared = pair.attempt.declared.clone().ok_or_else(|| {
                        StoreError::inconsistent("attempts", "committing without a declaration")
                    })?;
                    draft
                        .verify
                        .push(VerificationTicket::new(pair, declared, epoch));
                }
                Verdict::LookAgain(at) => onward.push(onward_row(pair, at, false)),
            }
        }
        move_on(tx, &onward).await?;
        draft.ended = finish(tx, locked.now, ends).await?;
        Ok(draft)
    }
}

enum Verdict {
    End(Cause),
    PickUp,
    LookAgain(OffsetDateTime),
}

impl ExpireDue {
    /// Those that the sweep knew of when it began, which another gateway may have ended since, and the
    /// one that there is now: we may have been away between then and here.
    async fn outages(&self, tx: &mut Tx, now: OffsetDateTime) -> Result<Vec<Outage>, StoreError> {
        let Look::AtOurselvesToo(known) = &self.look else {
            return Ok(Vec::new());
        };
        let since = Outage::since_last_sweep(tx, now).await?;
        Ok(known.iter().copied().chain(since).collect())
    }

    fn judge_time(&self, tx: &Tx, pair: &Pair, now: OffsetDateTime, outages: &[Outage]) -> Verdict {
        let attempt = &pair.attempt;
        let expires_at = attempt.fence.expires_at.unwrap_or(now);
        let grace_ends = match (pair.job.facts.status, pair.job.cancel_requested_at) {
            (JobStatus::Cancelling, Some(at)) => Some(at + tx.settings.cancel_grace.signed()),
            _ => None,
        };
        if grace_ends.is_some_and(|ends| ends <= now) {
            return Verdict::End(Cause::CancelForced);
        }
        if attempt.fence.status == AttemptStatus::Committing {
            let until = attempt.verify_until.unwrap_or(now);
            if until > now {
                return Verdict::LookAgain(grace_ends.map_or(until, |ends| ends.min(until)));
            }
            if is_last(pair, now) {
                return Verdict::End(Cause::VerificationTrouble);
            }
            if !self.services.contains(&pair.job.service) {
                return Verdict::LookAgain(now + tx.settings.verification_takeover.signed());
            }
            return Verdict::PickUp;
        }
        if expires_at <= now {
            let ours = outages.iter().any(|outage| outage.covers(expires_at));
            return Verdict::End(match (attempt.accepted, ours) {
                (false, _) => Cause::Returned,
                (true, true) => Cause::ExpiredInOutage,
                (true, false) => Cause::Expired,
            });
        }
        Verdict::LookAgain(grace_ends.map_or(expires_at, |ends| ends.min(expires_at)))
    }
}

fn explain(cause: Cause) -> &'static str {
    match cause {
        Cause::Expired => "the lease ran out: the device was not heard of in time",
        Cause::ExpiredInOutage => "the lease ran out while no gateway was there to renew it",
        Cause::Returned => "the offer was not accepted in time",
        Cause::VerificationTrouble => "the output could not be checked, again and again",
        _ => "the job was cancelled",
    }
}

fn onward_row(pair: &Pair, check_after: OffsetDateTime, pick_up: bool) -> Onward {
    Onward {
        attempt_id: pair.attempt.fence.attempt.0,
        epoch: pair.attempt.fence.epoch,
        verification_epoch: pair.attempt.verification_epoch,
        pick_up,
        check_after: sql_time(check_after),
    }
}

async fn lock_due(tx: &mut Tx, limit: i64) -> Result<LockedPairs, StoreError> {
    let records = select_pairs!(
        r#"-- expire_due: lock
        with due as materialized (
            select id, job_id from attempts
            where ended_at is null and check_after <= (select authority_now())
            order by check_after limit $1
        ), j as materialized (
            select * from jobs where id in (select job_id from due)
            order by id for no key update skip locked
        ), a as materialized (
            select attempts.* from attempts, (select count(*) from j) jobs_are_locked
            where id in (select due.id from due where due.job_id in (select j.id from j))
                and ended_at is null
            order by id for no key update of attempts skip locked
        ), "#,
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    tx.point("locked").await;
    PairRecord::into_pairs(records)
}

/// Whether more is due than was locked.
async fn leaves_out(tx: &mut Tx, locked: &LockedPairs) -> Result<bool, StoreError> {
    let pairs = locked.pairs.iter();
    let ids: Vec<Uuid> = pairs.map(|pair| pair.attempt.fence.attempt.0).collect();
    let found = sqlx::query_scalar!(
        r#"-- expire_due: left out
        select exists (select from attempts
            where ended_at is null and check_after <= $1 and id <> all($2)) as "left_out!""#,
        locked.now,
        &ids
    );
    Ok(found.fetch_one(&mut **tx).await?)
}

async fn move_on(tx: &mut Tx, onward: &[Onward]) -> Result<(), StoreError> {
    if onward.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(onward)
        .map_err(|error| StoreError::inconsistent("attempts", error.to_string()))?;
    let written = sqlx::query!(
        r#"-- expire_due: move on
        update attempts a set
            check_after = e.check_after,
            verification_epoch = e.verification_epoch + e.pick_up::int,
            verify_until = case when e.pick_up then e.check_after else a.verify_until end
        from jsonb_to_recordset($1) as e(attempt_id uuid, epoch bigint, verification_epoch bigint,
            pick_up boolean, check_after timestamptz)
        where a.id = e.attempt_id and a.ended_at is null and a.lease_epoch = e.epoch
            and a.verification_epoch = e.verification_epoch"#,
        input
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if written == onward.len() as u64 {
        Ok(())
    } else {
        Err(StoreError::inconsistent(
            "attempts",
            "a sweep moved another number than it judged",
        ))
    }
}
