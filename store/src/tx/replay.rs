//! What events and artifacts have in common: the domain's table applied to locked rows, and the write
//! that repeats its facts.

use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::fencing::{FenceViolation, LeaseClaim, Operation, check_identity};
use fencepost_domain::field::FieldError;
use fencepost_domain::job::JobStatus;
use fencepost_domain::replay::{Stored, Verdict, decide};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Refusal;
use crate::error::StoreError;
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

impl FoundRow {
    /// A row as it was found; `None` without one.
    pub(super) fn new(
        writer_digest: Option<&[u8]>,
        identical: Option<bool>,
        job_seq: Option<i64>,
        recorded_at: Option<OffsetDateTime>,
    ) -> Option<Self> {
        Some(Self {
            writer: writer_digest.and_then(CommitTokenDigest::from_bytes),
            identical: identical == Some(true),
            job_seq: job_seq?,
            recorded_at: recorded_at?,
        })
    }
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

/// Completes a write of judged rows: `$1` holds them as JSON, `$2` is the reading of the clock that
/// they were judged by. The insert takes `holders h`, who passed the fence again, and `placed p`,
/// with their places among all that happened to the job, and returns `attempt_id` and `job_seq`.
macro_rules! write_journal {
    ($name:literal, $columns:literal, $insert:literal, $rows:expr, $now:expr) => {
        sqlx::query_as!(
            $crate::tx::replay::Written,
            $name
                + r#"
        with input as materialized (
            select * from jsonb_to_recordset($1) as i(position bigint, attempt_id uuid,
                job_id uuid, device_id uuid, epoch bigint, digest text, "from" text[],
                must_be_live boolean, writer text, "#
                + $columns
                + r#")
        ), holders as materialized (
            select i.* from input i join attempts a on a.id = i.attempt_id
            where a.ended_at is null and a.job_id = i.job_id and a.device_id = i.device_id
                and a.lease_epoch = i.epoch
                and (i.digest is null or a.token_digest = decode(i.digest, 'hex'))
                and a.status::text = any(i."from")
                and (not i.must_be_live or a.lease_expires_at > $2)
        ), presented as (
            -- a frame has presented the new epoch: its welcome arrived
            update attempts a set replaced_epoch = null, replaced_digest = null,
                unpresented_claim = null
            from holders h where a.id = h.attempt_id
                and (a.replaced_epoch is not null or a.unpresented_claim is not null)
        ), placed as (
            update jobs j set event_counter = j.event_counter + 1 from holders h
            where j.id = h.job_id and j.status = 'active'
            returning h.position, j.event_counter
        )
        "# + $insert
                + r#"
        from holders h join placed p on p.position = h.position
        returning attempt_id, job_seq"#,
            $rows,
            $now
        )
    };
}
pub(super) use write_journal;

/// A row that was written, and its place.
pub(super) struct Written {
    pub(super) attempt_id: Uuid,
    pub(super) job_seq: i64,
}

/// Fills in the answers to what was written: one row for each of `judged`, an attempt at a position.
pub(super) fn answer_written(
    table: &'static str,
    judged: &[(usize, Uuid)],
    written: &[Written],
    now: OffsetDateTime,
    answers: &mut [Option<JournalAnswer>],
) -> Result<(), StoreError> {
    if judged.len() != written.len() {
        let what = format!("judged {} rows, wrote {}", judged.len(), written.len());
        return Err(StoreError::inconsistent(table, what));
    }
    for row in written {
        // No two of one batch are about the same attempt.
        let position = judged
            .iter()
            .find(|(_, attempt)| *attempt == row.attempt_id);
        let answer = position.and_then(|(position, _)| answers.get_mut(*position));
        if let Some(answer) = answer {
            *answer = Some(JournalAnswer::Stored {
                job_seq: row.job_seq,
                recorded_at: now,
                replayed: false,
                lease_live: true,
            });
        }
    }
    Ok(())
}
