//! The second half of a commit: the verdict becomes the end of attempt and job.
//!
//! Locks: jobs, then attempts, by id, then ledger accounts. Checks: still committing, and still this
//! pick-up of the verification (a slower gateway that lost it settles nothing). Cancel beats the
//! verdict. Writes: the end, or, after trouble of ours, the time of the next try.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::ids::AttemptId;
use fencepost_domain::job::JobStatus;
use fencepost_domain::verification::{
    MAX_VERIFICATION_TIME, MAX_VERIFICATIONS, Verdict, pause_after,
};
use time::OffsetDateTime;
use uuid::Uuid;

use super::finish::{Finish, Published, finish};
use super::in_turns;
use crate::error::StoreError;
use crate::fence::WhereFacts;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{LockedPairs, Pair, lock_pairs};
use crate::run::{Share, Store, Transaction, Tx};

/// A verdict to settle.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The attempt.
    pub attempt: AttemptId,
    /// The pick-up under which it was verified.
    pub verification_epoch: i64,
    /// The copy that was verified.
    pub copy_key: String,
    /// What was found.
    pub verdict: Verdict,
}

/// What became of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The attempt has ended, by this verdict or before it.
    Final(FinalizedAttempt),
    /// Trouble of ours: it is verified again later.
    Later,
    /// Another gateway has taken it over.
    TakenOver,
}

impl Store {
    /// Settles verdicts; one answer for each, in order.
    pub async fn settle_commit(&self, verdicts: Vec<Settle>) -> Result<Vec<Settled>, StoreError> {
        let attempt = |one: &Settle| one.attempt;
        let drafts = in_turns(self, verdicts, attempt, |verdicts| SettleCommit {
            verdicts,
        })
        .await?;
        Ok(drafts.into_iter().map(Draft::after_commit).collect())
    }
}

struct SettleCommit {
    verdicts: Vec<Settle>,
}

/// An attempt whose verification is tried again: after which pick-up, and when.
type Later = (Uuid, i64, OffsetDateTime);

enum Draft {
    Ended(Ended),
    Later,
    TakenOver,
}

impl Draft {
    fn after_commit(self) -> Settled {
        match self {
            Self::Ended(ended) => Settled::Final(FinalizedAttempt::after_commit(ended)),
            Self::Later => Settled::Later,
            Self::TakenOver => Settled::TakenOver,
        }
    }
}

impl Transaction for SettleCommit {
    const NAME: &'static str = "settle_commit";
    const SHARE: Share = Share::Reserved;
    type Output = Vec<Draft>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<_> = self.verdicts.iter().map(|one| one.attempt).collect();
        let locked = lock_pairs(tx, &ids).await?;
        let (mut ends, mut later) = (Vec::new(), Vec::new());
        for one in &self.verdicts {
            let Some(pair) = current(&locked, one) else {
                continue;
            };
            match end(pair, one, locked.now) {
                Some(end) => ends.push(end),
                None => later.push((
                    one.attempt.0,
                    one.verification_epoch,
                    locked.now + pause_after(one.verification_epoch),
                )),
            }
        }
        postpone(tx, &later).await?;
        let ended = finish(tx, locked.now, ends).await?;
        Ok(self
            .verdicts
            .iter()
            .map(|one| answer(&locked, &ended, &later, one))
            .collect())
    }
}

/// The pair if the verdict may still settle it.
fn current<'a>(locked: &'a LockedPairs, one: &Settle) -> Option<&'a Pair> {
    locked.find(one.attempt).filter(|pair| {
        pair.attempt.fence.status == AttemptStatus::Committing
            && pair.attempt.verification_epoch == one.verification_epoch
    })
}

fn end(pair: &Pair, one: &Settle, now: OffsetDateTime) -> Option<Finish> {
    let cancelling = pair.job.facts.status == JobStatus::Cancelling;
    let (cause, message) = match &one.verdict {
        Verdict::Good { .. } => (Cause::Verified, None),
        Verdict::MediaRejected { reason } => (Cause::MediaRejected, Some(reason)),
        Verdict::BytesDiffer { reason } => (Cause::BytesDiffer, Some(reason)),
        Verdict::Trouble { reason } if is_last(pair, now) => {
            (Cause::VerificationTrouble, Some(reason))
        }
        Verdict::Trouble { reason } if cancelling => (Cause::VerificationTrouble, Some(reason)),
        Verdict::Trouble { .. } => return None,
    };
    let facts = WhereFacts::of_row(&pair.attempt.fence);
    let ending = decide(&pair.job.facts, cause, now);
    let mut end = Finish::attempt(pair, facts, &ending).in_verification(one.verification_epoch);
    if let Some(message) = message {
        end = end.message(message);
    }
    match (&one.verdict, &pair.attempt.declared) {
        (Verdict::Good { duration_seconds }, Some(declared)) if !cancelling => {
            let output = Published {
                attempt_id: one.attempt.0,
                object_key: one.copy_key.clone(),
                sha256: hex::encode(declared.sha256),
                size_bytes: declared.size_bytes,
                seconds: *duration_seconds,
            };
            Some(end.publish(pair, output))
        }
        _ => Some(end),
    }
}

/// Whether our trouble may not be tried again.
pub(super) fn is_last(pair: &Pair, now: OffsetDateTime) -> bool {
    let started = pair.attempt.verification_started_at.unwrap_or(now);
    pair.attempt.verification_epoch >= MAX_VERIFICATIONS || now - started >= MAX_VERIFICATION_TIME
}

fn answer(locked: &LockedPairs, ended: &[Ended], later: &[Later], one: &Settle) -> Draft {
    if let Some(ended) = ended.iter().find(|ended| ended.attempt == one.attempt) {
        return Draft::Ended(ended.clone());
    }
    if later.iter().any(|(attempt, ..)| *attempt == one.attempt.0) {
        return Draft::Later;
    }
    match locked.find(one.attempt).and_then(Pair::ended) {
        Some(ended) => Draft::Ended(ended),
        None => Draft::TakenOver,
    }
}

/// Lets the sweeper pick the verifications up again, each when it is due.
async fn postpone(tx: &mut Tx, later: &[Later]) -> Result<(), StoreError> {
    if later.is_empty() {
        return Ok(());
    }
    let attempts: Vec<Uuid> = later.iter().map(|one| one.0).collect();
    let epochs: Vec<i64> = later.iter().map(|one| one.1).collect();
    let due: Vec<OffsetDateTime> = later.iter().map(|one| one.2).collect();
    let written = sqlx::query!(
        r#"-- settle_commit: postpone
        update attempts set verify_until = later.due, check_after = later.due
        from unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) as later(id, epoch, due)
        where attempts.id = later.id and status = 'committing' and ended_at is null
            and verification_epoch = later.epoch"#,
        &attempts,
        &epochs,
        &due
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if written == later.len() as u64 {
        Ok(())
    } else {
        Err(StoreError::inconsistent(
            "attempts",
            "postponed another number than was judged",
        ))
    }
}
