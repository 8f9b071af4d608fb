//! Accept an offer, say how far the work is, renew the lease.
//!
//! Locks: attempts, by id (a batch skips the ones that others hold and takes them singly after it,
//! so that nobody's trouble delays another's renewal). The job is not locked: that it is being
//! cancelled is written on the attempt by the transaction that cancels it.
//! Checks: the fence without token; an explicit renewal must extend. Writes: phase, percent, expiry;
//! the first one accepts.

mod lock;
mod once;

use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::clock::ClockReading;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::fencing::{FenceViolation, LeaseClaim, Operation, check_identity};
use fencepost_domain::text::{clean, without_addresses};
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use self::lock::{Row, lock};
use super::{Refusal, in_turns};
use crate::error::StoreError;
use crate::fence::{WhereFacts, judge};
use crate::rows::{lasting, sql_time};
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

struct RecordProgress {
    progress: Vec<Progress>,
    /// Wait for locks; otherwise what is locked gets no answer (`None`).
    wait: bool,
    /// An explicit renewal, and to how long a lease.
    renewal: Option<LeaseDuration>,
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
            .map(|detail| clean(&without_addresses(detail), MAX_DETAIL_BYTES)),
    };
    Ok((
        ProgressAnswer::Renewed(Renewal::new(expires_at, now)),
        Some(write),
    ))
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
