//! The buyer cancels.
//!
//! Locks: the job; then, in a second statement whose snapshot is newer than the lock (a round may
//! have been inserting the attempt while we waited), its live attempt; then the ledger account.
//! Writes: `queued → cancelled` at once; `active` or `verifying → cancelling`, with the reason to
//! stop on the attempt; an attempt that nobody accepted yet is ended in the same transaction.

use fencepost_domain::ending::{Cause, JobNext, decide};
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, OrgId};
use fencepost_domain::job::JobStatus;
use time::OffsetDateTime;
use uuid::Uuid;

use super::finish::{Finish, finish};
use super::return_offers::is_unaccepted;
use crate::error::StoreError;
use crate::fence::WhereFacts;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{Pair, job_status, lock_pairs};
use crate::run::{Store, Transaction, Tx};

/// What a cancel did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// The job's status now.
    pub status: JobStatus,
    /// Whether this cancel changed anything.
    pub changed: bool,
    /// The attempt that was ended with it.
    pub ended: Option<FinalizedAttempt>,
    /// The attempt whose session must tell it to stop.
    pub stopping: Option<Stopping>,
}

/// An attempt that must be told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping {
    /// Its job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptId,
    /// Its device.
    pub device: DeviceId,
    /// Its epoch.
    pub epoch: i64,
}

impl Store {
    /// Cancels a job of `org`; `None` if it has none of that id.
    pub async fn cancel_job(
        &self,
        org: OrgId,
        job: JobId,
    ) -> Result<Option<Cancelled>, StoreError> {
        let draft = self.execute(CancelJob { org, job }).await?;
        Ok(draft.map(|draft| Cancelled {
            status: draft.status,
            changed: draft.changed,
            ended: draft.ended.map(FinalizedAttempt::after_commit),
            stopping: draft.stopping,
        }))
    }
}

struct CancelJob {
    org: OrgId,
    job: JobId,
}

struct Draft {
    status: JobStatus,
    changed: bool,
    ended: Option<Ended>,
    stopping: Option<Stopping>,
}

impl Draft {
    fn unchanged(status: JobStatus) -> Self {
        Self {
            status,
            changed: false,
            ended: None,
            stopping: None,
        }
    }
}

impl Transaction for CancelJob {
    const NAME: &'static str = "cancel_job";
    type Output = Option<Draft>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let Some(status) = lock_job(tx, self.org, self.job).await? else {
            return Ok(None);
        };
        if tx.rerun && matches!(status, JobStatus::Cancelling | JobStatus::Cancelled) {
            return self.as_stored(tx, status).await.map(Some);
        }
        if status.is_terminal() || status == JobStatus::Cancelling {
            return Ok(Some(Draft::unchanged(status)));
        }
        match find_live_attempt(tx, self.job).await? {
            None => cancel_queued(tx, self.job, status).await.map(Some),
            Some(attempt) => self.cancel_live(tx, attempt).await.map(Some),
        }
    }
}

impl CancelJob {
    /// The answer to a cancel that an earlier run of it made (or another one at the same time: to
    /// call that one ours tells the buyer nothing wrong). A sweep reports an attempt that it ended.
    async fn as_stored(&self, tx: &mut Tx, status: JobStatus) -> Result<Draft, StoreError> {
        let mut draft = Draft::unchanged(status);
        draft.changed = true;
        if let Some(attempt) = find_live_attempt(tx, self.job).await? {
            let locked = lock_pairs(tx, &[attempt]).await?;
            draft.stopping = locked.find(attempt).and_then(|pair| self.stopping(pair));
        }
        Ok(draft)
    }

    /// `None` for a claim: no session works on it.
    fn stopping(&self, pair: &Pair) -> Option<Stopping> {
        let fence = &pair.attempt.fence;
        (!pair.attempt.claimed).then_some(Stopping {
            job: self.job,
            attempt: fence.attempt,
            device: fence.device,
            epoch: fence.epoch,
        })
    }

    async fn cancel_live(&self, tx: &mut Tx, attempt: AttemptId) -> Result<Draft, StoreError> {
        let locked = lock_pairs(tx, &[attempt]).await?;
        let Some(pair) = locked.find(attempt) else {
            return Err(StoreError::inconsistent(
                "attempts",
                "a live attempt has no job",
            ));
        };
        mark_cancelling(tx, pair, locked.now).await?;
        let fence = &pair.attempt.fence;
        if !is_unaccepted(pair) {
            return Ok(Draft {
                status: JobStatus::Cancelling,
                changed: true,
                ended: None,
                stopping: self.stopping(pair),
            });
        }
        let mut pair = pair.clone();
        pair.job.facts.status = JobStatus::Cancelling;
        let ending = decide(&pair.job.facts, Cause::CancelForced, locked.now);
        let end = Finish::attempt(&pair, WhereFacts::of_row(fence), &ending);
        let ended = finish(tx, locked.now, vec![end]).await?.pop();
        Ok(Draft {
            status: JobStatus::Cancelled,
            changed: true,
            ended,
            stopping: None,
        })
    }
}

async fn lock_job(tx: &mut Tx, org: OrgId, job: JobId) -> Result<Option<JobStatus>, StoreError> {
    let label = sqlx::query_scalar!(
        r#"-- cancel_job: lock
        select status::text as "status!" from jobs
        where id = $1 and org_id = $2 and erased_at is null for no key update"#,
        job.0,
        org.0
    )
    .fetch_optional(&mut **tx)
    .await?;
    label.as_deref().map(job_status).transpose()
}

async fn find_live_attempt(tx: &mut Tx, job: JobId) -> Result<Option<AttemptId>, StoreError> {
    let id = sqlx::query_scalar!(
        "-- cancel_job: find\nselect id from attempts where job_id = $1 and ended_at is null",
        job.0
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(id.map(AttemptId))
}

async fn cancel_queued(tx: &mut Tx, job: JobId, status: JobStatus) -> Result<Draft, StoreError> {
    if status != JobStatus::Queued {
        let what = format!("job {job} is {status:?} without a live attempt");
        return Err(StoreError::inconsistent("jobs", what));
    }
    let (now, rows) = super::tend_queue::lock_waiting(tx, &[job.0]).await?;
    let ends = rows
        .iter()
        .map(|row| Finish::job_alone(row, JobNext::Cancelled))
        .collect();
    finish(tx, now, ends).await?;
    Ok(Draft {
        status: JobStatus::Cancelled,
        changed: true,
        ended: None,
        stopping: None,
    })
}

async fn mark_cancelling(tx: &mut Tx, pair: &Pair, now: OffsetDateTime) -> Result<(), StoreError> {
    let grace = now + tx.settings.cancel_grace.signed();
    let (job, attempt): (Uuid, Uuid) = (pair.job.id.0, pair.attempt.fence.attempt.0);
    let written = sqlx::query!(
        r#"-- cancel_job: mark
        with stopping as (
            update attempts set stop_reason = 'buyer_cancelled',
                check_after = least(check_after, $4)
            where id = $2 and job_id = $1 and ended_at is null
            returning job_id
        )
        update jobs j set status = 'cancelling', cancel_requested_at = $3
        from stopping where j.id = stopping.job_id and j.status in ('active', 'verifying')"#,
        job,
        attempt,
        now,
        grace
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if written == 1 {
        Ok(())
    } else {
        Err(StoreError::inconsistent(
            "jobs",
            format!("cancelling {job} changed {written} rows"),
        ))
    }
}
