//! The control plane takes leases back over the agents' heads: an operator revokes an attempt, or a
//! device stops being what it was when they were made.
//!
//! Locks: the device is the caller's (so no round can lease to it meanwhile); then jobs and
//! attempts, by id. Checks: still live; an attempt that is committing belongs to the control plane
//! and goes on, unless it was revoked by name. Writes: the end, uncharged, under a new epoch, so
//! that no frame under the old one is right any more.

use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::ids::{AttemptId, DeviceId};
use serde::Serialize;
use serde_json::json;

use super::finish::{Finish, finish};
use crate::admin::audit::AuditLine;
use crate::error::StoreError;
use crate::fence::{WhereFacts, hex_digest};
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{LockedPairs, Pair, lock_pairs};
use crate::run::{Store, Transaction, Tx};
use crate::secrets::mint_commit_token;

/// What a revoke did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// The attempt has ended by it.
    Ended(FinalizedAttempt),
    /// It had ended before; nothing was changed.
    EndedBefore(FinalizedAttempt),
}

impl Store {
    /// Ends a live attempt, also one whose output is being verified; `None` if there is none of that
    /// id. The job is queued again, or cancelled if its buyer asked for that.
    pub async fn revoke_attempt(&self, attempt: AttemptId) -> Result<Option<Revoked>, StoreError> {
        let line = self.audit_line("attempt.revoke", &attempt);
        let draft = self.execute(RevokeAttempt { attempt, line }).await?;
        Ok(draft.map(|draft| match draft {
            Draft::Ended(ended) => Revoked::Ended(FinalizedAttempt::after_commit(ended)),
            Draft::EndedBefore(ended) => {
                Revoked::EndedBefore(FinalizedAttempt::after_commit(ended))
            }
        }))
    }
}

struct RevokeAttempt {
    attempt: AttemptId,
    line: AuditLine,
}

enum Draft {
    Ended(Ended),
    EndedBefore(Ended),
}

impl Transaction for RevokeAttempt {
    const NAME: &'static str = "revoke_attempt";
    type Output = Option<Draft>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let locked = lock_pairs(tx, &[self.attempt]).await?;
        let Some(pair) = locked.find(self.attempt) else {
            return Ok(None);
        };
        if let Some(ended) = pair.ended() {
            // An earlier run of this revoke, or another end at the same time: it has ended.
            return Ok(Some(if tx.rerun {
                Draft::Ended(ended)
            } else {
                Draft::EndedBefore(ended)
            }));
        }
        let ended = end_all(tx, &locked, |_| true, "an operator revoked the attempt").await?;
        let Some(ended) = ended.into_iter().next() else {
            return Ok(None);
        };
        let detail = json!({ "job_id": ended.job, "job_status": ended.job_status.as_str() });
        self.line.write(tx, detail).await?;
        Ok(Some(Draft::Ended(ended)))
    }
}

/// Ends what a device's agent holds. The caller has locked the device.
pub(super) async fn revoke_leases_of(
    tx: &mut Tx,
    device: DeviceId,
    why: &str,
) -> Result<Vec<Ended>, StoreError> {
    let locked = lock_live_of(tx, device).await?;
    end_all(tx, &locked, is_held_by_agent, why).await
}

/// Gives the leases of a device's agent a new epoch and a secret that nobody knows. They go on, but
/// only for a hello that presents the pair they had; what was claimed outside a session, which no
/// hello resumes, ends. The caller has locked the device.
pub(super) async fn keep_leases_for_hello(tx: &mut Tx, device: DeviceId) -> Result<(), StoreError> {
    let locked = lock_live_of(tx, device).await?;
    let kept_before = find_kept(tx, device).await?;
    let kept: Vec<Kept> = locked
        .pairs
        .iter()
        .filter(|pair| is_held_by_agent(pair) && !pair.attempt.claimed)
        .filter(|pair| !kept_before.contains(&pair.attempt.fence.attempt))
        // What has run out goes on for nobody.
        .filter(|pair| pair.attempt.fence.expires_at > Some(locked.now.max(locked.mark)))
        .map(|pair| Kept {
            facts: WhereFacts::of_row(&pair.attempt.fence),
            new_epoch: pair.job.epoch_counter + 1,
            new_digest: hex_digest(&mint_commit_token().digest()),
        })
        .collect();
    write_kept(tx, &kept).await?;
    let is_claim = |pair: &Pair| is_held_by_agent(pair) && pair.attempt.claimed;
    end_all(tx, &locked, is_claim, "the device was paired again").await?;
    Ok(())
}

fn is_held_by_agent(pair: &Pair) -> bool {
    pair.attempt.fence.status.is_held_by_agent()
}

/// What was kept already, when the device was paired before, and that no hello has asked for since:
/// its secret is as unknown as a new one, and the pair that its agent has must not be forgotten.
async fn find_kept(tx: &mut Tx, device: DeviceId) -> Result<Vec<AttemptId>, StoreError> {
    let ids = sqlx::query_scalar!(
        r#"-- revoke: find kept
        select a.id from attempts a join devices d on d.id = a.device_id
        where d.id = $1 and a.ended_at is null and a.session_number <= d.void_through"#,
        device.0
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(ids.into_iter().map(AttemptId).collect())
}

async fn lock_live_of(tx: &mut Tx, device: DeviceId) -> Result<LockedPairs, StoreError> {
    let ids = sqlx::query_scalar!(
        "-- revoke: find\nselect id from attempts where device_id = $1 and ended_at is null",
        device.0
    )
    .fetch_all(&mut **tx)
    .await?;
    let ids: Vec<_> = ids.into_iter().map(AttemptId).collect();
    lock_pairs(tx, &ids).await
}

async fn end_all(
    tx: &mut Tx,
    locked: &LockedPairs,
    meant: impl Fn(&Pair) -> bool,
    why: &str,
) -> Result<Vec<Ended>, StoreError> {
    let live = |pair: &&Pair| pair.attempt.fence.status.is_live() && meant(pair);
    let ends = locked.pairs.iter().filter(live).map(|pair| {
        let ending = decide(&pair.job.facts, Cause::Revoked, locked.now);
        Finish::attempt(pair, WhereFacts::of_row(&pair.attempt.fence), &ending)
            .in_verification(pair.attempt.verification_epoch)
            .message(why)
    });
    let ends = ends.collect();
    finish(tx, locked.now, ends).await
}

#[derive(Serialize)]
struct Kept {
    #[serde(flatten)]
    facts: WhereFacts,
    new_epoch: i64,
    new_digest: String,
}

async fn write_kept(tx: &mut Tx, kept: &[Kept]) -> Result<(), StoreError> {
    if kept.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(kept)
        .map_err(|error| StoreError::inconsistent("attempts", error.to_string()))?;
    let row = sqlx::query!(
        r#"-- revoke: keep for hello
        with kept as (
            update attempts a set replaced_epoch = a.lease_epoch, replaced_digest = a.token_digest,
                lease_epoch = e.new_epoch, token_digest = decode(e.new_digest, 'hex')
            from jsonb_to_recordset($1) as e(attempt_id uuid, job_id uuid, device_id uuid,
                epoch bigint, "from" text[], new_epoch bigint, new_digest text)
            where a.id = e.attempt_id and a.ended_at is null and a.job_id = e.job_id
                and a.device_id = e.device_id and a.lease_epoch = e.epoch
                and a.status::text = any(e."from")
            returning a.job_id, a.lease_epoch
        ), counted as (
            update jobs j set epoch_counter = kept.lease_epoch from kept
            where j.id = kept.job_id and j.epoch_counter < kept.lease_epoch
            returning 1
        )
        select (select count(*) from kept) as "attempts!",
            (select count(*) from counted) as "jobs!""#,
        input
    )
    .fetch_one(&mut **tx)
    .await?;
    let expected = i64::try_from(kept.len()).unwrap_or(i64::MAX);
    if (row.attempts, row.jobs) == (expected, expected) {
        Ok(())
    } else {
        let what = "kept another number of leases for a hello than there are";
        Err(StoreError::inconsistent("attempts", what))
    }
}
