//! What events and artifacts have in common: the domain's table applied to locked rows.

use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::fencing::{FenceViolation, LeaseClaim, Operation, check_identity};
use fencepost_domain::field::FieldError;
use fencepost_domain::job::JobStatus;
use fencepost_domain::replay::{Stored, Verdict, decide};
use time::OffsetDateTime;

use super::Refusal;
use crate::fence::{FenceMode, WhereFacts, judge};
use crate::rows::Pair;
use crate::run::Tx;

/// The answer to an event or an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalAnswer {
    /// It is stored.
    Stored {
        /// Its place among all that happened to the job.
        job_seq: i64,
        /// When it was written.
        recorded_at: OffsetDateTime,
        /// Whether it was stored before: then nothing was written.
        replayed: bool,
        /// Whether the presented epoch and token hold the lease.
        lease_live: bool,
    },
    /// Nothing was changed.
    Refused(JournalRefusal),
}

/// Why an event or an artifact was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalRefusal {
    /// The caller does not hold the lease. The wire is told no more than that.
    #[error("{0}")]
    Lease(Refusal),
    /// Something else is stored under its id, its name or its number.
    #[error("something else is stored there")]
    Content,
    /// It breaks a rule or a limit.
    #[error("{0}")]
    Invalid(FieldError),
}

/// What was found under the presented attempt, epoch and id.
pub(super) struct Found {
    /// Digest of the row's writer, and whether its content is identical; `None` without a row.
    pub(super) row: Option<FoundRow>,
    /// Whether another row has the place that a new one would take.
    pub(super) place_taken: bool,
    /// How many the attempt has.
    pub(super) count: i64,
}

/// A stored row.
pub(super) struct FoundRow {
    pub(super) writer: Option<CommitTokenDigest>,
    pub(super) identical: bool,
    pub(super) job_seq: i64,
    pub(super) recorded_at: OffsetDateTime,
}

/// What to do about one item.
pub(super) enum Judged {
    /// Write it, with these facts in the `WHERE`.
    Write(WhereFacts),
    /// Answer this.
    Answer(JournalAnswer),
}

/// Who presents what.
pub(super) struct Presented<'a> {
    pub(super) claim: &'a LeaseClaim,
    pub(super) token: &'a CommitTokenDigest,
    pub(super) operation: Operation,
}

/// Applies the table. Asked before the lease check, whose result is only one of its columns.
pub(super) fn judge_item(
    tx: &Tx,
    pair: Option<&Pair>,
    presented: &Presented<'_>,
    found: &Found,
    clock: ClockReading,
) -> Judged {
    let refused = |refusal| Judged::Answer(JournalAnswer::Refused(refusal));
    let Some(pair) = pair else {
        return refused(JournalRefusal::Lease(Refusal::UnknownAttempt));
    };
    let lease = held_lease(tx, pair, presented, clock);
    // Whose attempt it is comes first: a stranger is never answered from a row.
    let stored = match &found.row {
        Some(row) if check_identity(&pair.attempt.fence, presented.claim).is_ok() => {
            if row.writer.as_ref() == Some(presented.token) {
                Stored::ByCaller {
                    identical: row.identical,
                }
            } else {
                Stored::ByAnother
            }
        }
        Some(_) | None => Stored::Nothing {
            place_taken: found.place_taken,
        },
    };
    match (decide(stored, lease.is_ok()), lease, &found.row) {
        (Verdict::Write, Ok(facts), _) => Judged::Write(facts),
        (Verdict::Replay, lease, Some(row)) => Judged::Answer(JournalAnswer::Stored {
            job_seq: row.job_seq,
            recorded_at: row.recorded_at,
            // An earlier run of this very transaction may be who wrote it.
            replayed: !tx.rerun,
            lease_live: is_live(pair, &lease),
        }),
        (Verdict::LeaseConflict, Err(refusal), _) => refused(JournalRefusal::Lease(refusal)),
        // A conflict of content: the table says "write" only to a holder, and "replay" only of a row.
        _ => refused(JournalRefusal::Content),
    }
}

/// Whether the caller holds the lease, as far as can be known: while the clock is behind its mark
/// nothing runs out.
fn is_live(pair: &Pair, lease: &Result<WhereFacts, Refusal>) -> bool {
    match lease {
        Ok(_) => true,
        Err(Refusal::Fence(FenceViolation::ClockRegressed { .. })) => {
            pair.job.facts.status == JobStatus::Active
        }
        Err(_) => false,
    }
}

/// The facts of the lease if the caller holds it.
fn held_lease(
    tx: &Tx,
    pair: &Pair,
    presented: &Presented<'_>,
    clock: ClockReading,
) -> Result<WhereFacts, Refusal> {
    let fence = &pair.attempt.fence;
    let Presented {
        claim,
        token,
        operation,
    } = presented;
    let facts =
        judge(tx.fence, fence, claim, Some(token), *operation, clock).map_err(Refusal::Fence)?;
    if pair.job.facts.status == JobStatus::Active || tx.fence == FenceMode::OnlyWhere {
        Ok(facts)
    } else {
        Err(Refusal::JobNotActive)
    }
}
