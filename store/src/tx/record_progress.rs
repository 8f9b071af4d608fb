//! Accept an offer, say how far the work is, renew the lease.
//!
//! Locks: attempts, by id (a batch skips the ones that others hold and takes them singly after it,
//! so that nobody's trouble delays another's renewal). The job is not locked: that it is being
//! cancelled is written on the attempt by the transaction that cancels it.
//! Checks: the fence without token; an explicit renewal must extend. Writes: phase, percent, expiry;
//! the first one accepts.

use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::clock::ClockReading;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::fencing::{
    AttemptFence, FenceViolation, LeaseClaim, Operation, check_identity,
};
use fencepost_domain::ids::{AttemptId, DeviceId, JobId};
use fencepost_domain::text::clean;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::once::{Asked, Once, Outcome, Repeatable, RequestKey, what_is_left};
use super::{Refusal, in_turns};
use crate::error::StoreError;
use crate::fence::{WhereFacts, judge};
use crate::rows::lasting;
use crate::run::{Share, Store, Transaction, Tx};

const MAX_DETAIL_BYTES: usize = 200;

/// What an agent says about an attempt.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Whose lease.
    pub claim: LeaseClaim,
    /// How far; `None` accepts the offer and says nothing more.
    pub phase: Option<Phase>,
    /// How much of the phase is done, 0 to 100.
    pub percent: Option<f32>,
    /// One line for people.
    pub detail: Option<String>,
}

/// The answer to a progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgressAnswer {
    /// Recorded, and the lease is renewed.
    Renewed(Renewal),
    /// Nothing was changed: the attempt is being verified, and the agent has nothing to do but wait.
    Verifying(Renewal),
    /// Nothing was changed: the agent must stop.
    Stop {
        /// Why: `buyer_cancelled` or `revoked`.
        reason: String,
        /// The lease as it stands.
        lease: Renewal,
    },
    /// Nothing was changed.
    Refused(Refusal),
}

/// A lease's end, and how far away it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// By Postgres's clock.
    pub expires_at: OffsetDateTime,
    /// From when it was decided; never negative.
    pub remaining: std::time::Duration,
}

impl Renewal {
    pub(crate) fn new(expires_at: OffsetDateTime, now: OffsetDateTime) -> Self {
        let remaining = (expires_at - now).try_into().unwrap_or_default();
        Self {
            expires_at,
            remaining,
        }
    }
}

impl Store {
    /// Records progress; one answer for each, in order.
    pub async fn record_progress(
        &self,
        progress: Vec<Progress>,
    ) -> Result<Vec<ProgressAnswer>, StoreError> {
        let wait = progress.len() == 1;
        let attempt = |one: &Progress| one.claim.attempt;
        let mut answers = in_turns(self, progress.clone(), attempt, |progress| RecordProgress {
            progress,
            wait,
            renewal: None,
        })
        .await?;
        for (position, answer) in answers.iter_mut().enumerate() {
            if answer.is_none() {
                let single = vec![progress[position].clone()];
                let single = RecordProgress {
                    progress: single,
                    wait: true,
                    renewal: None,
                };
                *answer = self.execute(single).await?.pop().flatten();
            }
        }
        let unknown = ProgressAnswer::Refused(Refusal::UnknownAttempt);
        Ok(answers
            .into_iter()
            .map(|answer| answer.unwrap_or(unknown.clone()))
            .collect())
    }
}

impl Store {
    /// Records progress under a request's id.
    pub async fn record_progress_once(
        &self,
        key: RequestKey,
        progress: Progress,
    ) -> Result<Asked<ProgressAnswer>, StoreError> {
        self.progress_once(key, progress, None).await
    }

    /// Renews a lease, under a request's id: to `length` from now on, and no longer than leases
    /// are. A renewal that would not extend the lease is refused.
    pub async fn renew_lease(
        &self,
        key: RequestKey,
        claim: LeaseClaim,
        length: Option<LeaseDuration>,
    ) -> Result<Asked<ProgressAnswer>, StoreError> {
        let progress = Progress {
            claim,
            phase: None,
            percent: None,
            detail: None,
        };
        let length = length.unwrap_or(self.settings().lease_ttl);
        self.progress_once(key, progress, Some(length)).await
    }

    async fn progress_once(
        &self,
        key: RequestKey,
        progress: Progress,
        renewal: Option<LeaseDuration>,
    ) -> Result<Asked<ProgressAnswer>, StoreError> {
        let inner = RecordProgress {
            progress: vec![progress],
            wait: true,
            renewal,
        };
        let unknown = ProgressAnswer::Refused(Refusal::UnknownAttempt);
        let asked = self.execute(Once { key, inner }).await?;
        Ok(asked.map(|mut answers| answers.pop().flatten().unwrap_or(unknown)))
    }
}

struct RecordProgress {
    progress: Vec<Progress>,
    /// Wait for locks; otherwise what is locked gets no answer (`None`).
    wait: bool,
    /// An explicit renewal, and to how long a lease.
    renewal: Option<LeaseDuration>,
}

/// A locked attempt, as much of it as progress may decide on.
struct Row {
    fence: AttemptFence,
    stop_reason: Option<String>,
    leased_at: OffsetDateTime,
    run_deadline: OffsetDateTime,
}

#[derive(Serialize)]
struct Write {
    #[serde(flatten)]
    facts: WhereFacts,
    status: &'static str,
    expires_at: String,
    percent: Option<f32>,
    detail: Option<String>,
}

impl Transaction for RecordProgress {
    const NAME: &'static str = "record_progress";
    const SHARE: Share = Share::Reserved;
    /// `None` where the row was locked by somebody else.
    type Output = Vec<Option<ProgressAnswer>>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<Uuid> = self
            .progress
            .iter()
            .map(|one| one.claim.attempt.0)
            .collect();
        let (clock, rows) = lock(tx, &ids, self.wait).await?;
        let renewal = self.renewal;
        let mut answers = Vec::with_capacity(self.progress.len());
        let mut writes = Vec::new();
        for one in &self.progress {
            let Some(row) = rows
                .iter()
                .find(|row| row.fence.attempt == one.claim.attempt)
            else {
                answers.push(
                    self.wait
                        .then_some(ProgressAnswer::Refused(Refusal::UnknownAttempt)),
                );
                continue;
            };
            let (answer, write) = match decide(tx, row, one, clock, renewal) {
                Ok((answer, write)) => (answer, write),
                Err(refusal) => (ProgressAnswer::Refused(refusal), None),
            };
            answers.push(Some(answer));
            writes.extend(write);
        }
        apply(tx, clock.now, &writes).await?;
        Ok(answers)
    }
}

fn decide(
    tx: &Tx,
    row: &Row,
    one: &Progress,
    clock: ClockReading,
    renewal: Option<LeaseDuration>,
) -> Result<(ProgressAnswer, Option<Write>), Refusal> {
    let ttl = tx.settings.lease_ttl;
    let now = clock.now;
    let stored_expiry = lasting(row.fence.expires_at, row.leased_at, now);
    if row.fence.status == AttemptStatus::Committing {
        check_identity(&row.fence, &one.claim).map_err(Refusal::Fence)?;
        if row.fence.epoch != one.claim.epoch {
            return Err(Refusal::Fence(FenceViolation::StaleEpoch));
        }
        let lease = Renewal::new(now + ttl.signed(), now);
        return Ok((stop_or(row, lease, ProgressAnswer::Verifying), None));
    }
    let judged = judge(
        tx.fence,
        &row.fence,
        &one.claim,
        None,
        Operation::Progress,
        clock,
    );
    let facts = match judged {
        // A cancel does not wait for the clock.
        Ok(_) | Err(FenceViolation::ClockRegressed { .. }) if row.stop_reason.is_some() => {
            let lease = Renewal::new(stored_expiry, now);
            return Ok((stop_or(row, lease, ProgressAnswer::Renewed), None));
        }
        judged => judged.map_err(Refusal::Fence)?,
    };
    let length = renewal.unwrap_or(ttl).min(ttl).signed();
    let wanted = (now + length).min(row.run_deadline);
    if renewal.is_some() && wanted <= stored_expiry {
        return Err(Refusal::NotExtending);
    }
    // Never shorter than it was, never past the end of the service's run time.
    let expires_at = wanted.max(stored_expiry);
    let said = one.phase.map_or(row.fence.status, AttemptStatus::from);
    let status = said.max(row.fence.status);
    let write = Write {
        facts,
        status: status.as_str(),
        expires_at: sql_time(expires_at),
        percent: one
            .percent
            .filter(|percent| percent.is_finite())
            .map(|p| p.clamp(0.0, 100.0)),
        detail: one
            .detail
            .as_deref()
            .map(|detail| clean(detail, MAX_DETAIL_BYTES)),
    };
    Ok((
        ProgressAnswer::Renewed(Renewal::new(expires_at, now)),
        Some(write),
    ))
}

impl Repeatable for RecordProgress {
    fn outcome(answers: &Self::Output) -> Option<Outcome> {
        match answers.first()?.as_ref()? {
            ProgressAnswer::Renewed(lease) => Some(Outcome::Renewed {
                expires_at: lease.expires_at,
            }),
            ProgressAnswer::Verifying(_) => Some(Outcome::Verifying),
            ProgressAnswer::Stop { reason, lease } => Some(Outcome::Stop {
                reason: reason.clone(),
                expires_at: lease.expires_at,
            }),
            ProgressAnswer::Refused(refusal) => Outcome::of_refusal(*refusal),
        }
    }

    async fn again(&self, tx: &mut Tx, outcome: Outcome) -> Result<Self::Output, StoreError> {
        let answer = match outcome {
            Outcome::Renewed { expires_at } => {
                ProgressAnswer::Renewed(what_is_left(tx, expires_at).await?)
            }
            Outcome::Verifying => {
                let lease = what_is_left(tx, OffsetDateTime::UNIX_EPOCH).await?;
                ProgressAnswer::Verifying(lease)
            }
            Outcome::Stop { reason, expires_at } => {
                let lease = what_is_left(tx, expires_at).await?;
                ProgressAnswer::Stop { reason, lease }
            }
            refused => ProgressAnswer::Refused(refused.refusal()),
        };
        Ok(vec![Some(answer)])
    }
}

fn stop_or(row: &Row, lease: Renewal, otherwise: fn(Renewal) -> ProgressAnswer) -> ProgressAnswer {
    match &row.stop_reason {
        Some(reason) => ProgressAnswer::Stop {
            reason: reason.clone(),
            lease,
        },
        None => otherwise(lease),
    }
}

/// Microseconds since the epoch as SQL reads them back exactly.
fn sql_time(at: OffsetDateTime) -> String {
    // RFC 3339 cannot fail for the years that Postgres hands out.
    at.format(&time::format_description::well_known::Rfc3339)
        .unwrap_or_default()
}

struct LockedRow {
    now: OffsetDateTime,
    mark: OffsetDateTime,
    id: Option<Uuid>,
    job_id: Option<Uuid>,
    device_id: Option<Uuid>,
    status: Option<String>,
    lease_epoch: Option<i64>,
    lease_expires_at: Option<OffsetDateTime>,
    stop_reason: Option<String>,
    leased_at: Option<OffsetDateTime>,
    run_deadline: Option<OffsetDateTime>,
}

/// The locking read, which differs only in how it meets a lock: that cannot be a parameter.
macro_rules! lock_progress {
    ($ids:expr, $name:literal, $meet:literal) => {
        sqlx::query_as!(
            LockedRow,
            $name
                + r#"with a as materialized (
                select * from attempts where id = any($1) order by id for no key update "#
                + $meet
                + r#"
            ), clock as materialized (
                select authority_mark() as mark, authority_now() as now
                from (select count(*) from a) all_are_locked
            )
            select clock.now as "now!", clock.mark as "mark!", a.id as "id?", a.job_id as "job_id?",
                a.device_id as "device_id?", a.status::text as "status?",
                a.lease_epoch as "lease_epoch?", a.lease_expires_at, a.stop_reason,
                a.leased_at as "leased_at?", a.run_deadline as "run_deadline?"
            from clock left join a on true"#,
            $ids
        )
    };
}

async fn lock(
    tx: &mut Tx,
    ids: &[Uuid],
    wait: bool,
) -> Result<(ClockReading, Vec<Row>), StoreError> {
    let records = if wait {
        lock_progress!(ids, "-- record_progress: lock, waiting\n", "")
            .fetch_all(&mut **tx)
            .await?
    } else {
        lock_progress!(
            ids,
            "-- record_progress: lock what is free\n",
            "skip locked"
        )
        .fetch_all(&mut **tx)
        .await?
    };
    tx.point("locked").await;
    let clock = records
        .first()
        .map(|record| ClockReading {
            now: record.now,
            mark: record.mark,
        })
        .ok_or_else(|| StoreError::inconsistent("attempts", "a locking read gave no clock"))?;
    Ok((
        clock,
        records
            .into_iter()
            .filter_map(LockedRow::into_row)
            .collect(),
    ))
}

impl LockedRow {
    fn into_row(self) -> Option<Row> {
        Some(Row {
            fence: AttemptFence {
                device: DeviceId(self.device_id?),
                job: JobId(self.job_id?),
                attempt: AttemptId(self.id?),
                epoch: self.lease_epoch?,
                digest: None,
                status: AttemptStatus::parse(&self.status?)?,
                expires_at: self.lease_expires_at,
            },
            stop_reason: self.stop_reason,
            leased_at: self.leased_at?,
            run_deadline: self.run_deadline?,
        })
    }
}

/// By the reading that was judged by: whether the lease still lives at COMMIT is looked at there.
async fn apply(tx: &mut Tx, now: OffsetDateTime, writes: &[Write]) -> Result<(), StoreError> {
    if writes.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(writes)
        .map_err(|error| StoreError::inconsistent("attempts", error.to_string()))?;
    let written = sqlx::query!(
        r#"-- record_progress: write
        update attempts a set
            status = e.status::attempt_status, lease_expires_at = e.expires_at,
            accepted_at = coalesce(a.accepted_at, $2),
            -- the new epoch was presented: the pair before it is dead for hello too
            replaced_epoch = null, replaced_digest = null, unpresented_claim = null,
            resumes = case when e.status <> a.status::text or e.percent > coalesce(a.percent, -1)
                then 0 else a.resumes end,
            percent = case when e.status = a.status::text then coalesce(e.percent, a.percent)
                else e.percent end,
            detail = coalesce(e.detail, a.detail)
        from jsonb_to_recordset($1) as e(
            attempt_id uuid, job_id uuid, device_id uuid, epoch bigint, "from" text[],
            must_be_live boolean, status text, expires_at timestamptz, percent real, detail text)
        where a.id = e.attempt_id and a.ended_at is null
            and a.job_id = e.job_id and a.device_id = e.device_id and a.lease_epoch = e.epoch
            and a.status::text = any(e."from")
            and (not e.must_be_live or a.lease_expires_at > $2)"#,
        input,
        now
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if written == writes.len() as u64 {
        Ok(())
    } else {
        let what = format!("progress: judged {} rows, wrote {written}", writes.len());
        Err(StoreError::inconsistent("attempts", what))
    }
}
