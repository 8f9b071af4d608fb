//! What becomes of each attempt that a device holds, or should.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::fencing::{AttemptFence, Operation, check};
use fencepost_domain::job::JobStatus;
use serde::Serialize;
use time::OffsetDateTime;

use super::super::finish::Finish;
use super::{BeginSession, Held, ResumedLease};
use crate::error::StoreError;
use crate::fence::{WhereFacts, hex_digest};
use crate::rows::{LockedPairs, Pair, sql_time};
use crate::run::Tx;

/// After so many resumes in a row without any gain, an attempt is lost.
const MAX_RESUMES: i32 = 10;

#[derive(Serialize)]
pub(super) struct Rotation {
    #[serde(flatten)]
    facts: WhereFacts,
    replaced_epoch: i64,
    replaced_digest: String,
    resumes: i32,
    session: i64,
    new_epoch: i64,
    new_digest: String,
    expires_at: String,
}

pub(super) enum HeldVerdict {
    /// Without a rotation if an earlier run of this very hello made it.
    Resume(ResumedLease, Option<Box<Rotation>>),
    Recorded(AttemptStatus),
    Lost,
}

impl BeginSession {
    pub(super) fn judge_held(
        &self,
        tx: &Tx,
        locked: &LockedPairs,
        held: &Held,
        token: &CommitToken,
    ) -> HeldVerdict {
        let Some(pair) = locked.find(held.claim.attempt) else {
            return HeldVerdict::Lost;
        };
        if pair.attempt.claimed {
            return HeldVerdict::Lost;
        }
        let fence = &pair.attempt.fence;
        if let Some(stored) = &pair.attempt.final_answer
            && fence.device == self.hello.device
            && (stored.epoch, stored.digest) == (held.claim.epoch, held.token)
        {
            return HeldVerdict::Recorded(fence.status);
        }
        let new_digest = token.digest();
        if tx.rerun && fence.status.is_live() && fence.digest.as_ref() == Some(&new_digest) {
            return HeldVerdict::Resume(resumed(fence, token, locked.now), None);
        }
        let twice = pair.attempt.replaced == Some((held.claim.epoch, held.token));
        let mut claimed = *fence;
        if twice {
            // The same lease under the pair that the lost welcome should have replaced.
            (claimed.epoch, claimed.digest) = (held.claim.epoch, Some(held.token));
        }
        let held_right = check(
            &claimed,
            &held.claim,
            Some(&held.token),
            Operation::Release,
            locked.clock(),
        )
        .is_ok();
        if !held_right || pair.job.facts.status != JobStatus::Active {
            return HeldVerdict::Lost;
        }
        if !twice && pair.attempt.resumes >= MAX_RESUMES {
            return HeldVerdict::Lost;
        }
        self.resume(tx, pair, held, token, locked.now)
    }

    fn resume(
        &self,
        tx: &Tx,
        pair: &Pair,
        held: &Held,
        token: &CommitToken,
        now: OffsetDateTime,
    ) -> HeldVerdict {
        let fence = &pair.attempt.fence;
        let stored_expiry = pair.attempt.lasting_expiry(now);
        let twice = fence.epoch != held.claim.epoch;
        let renewed = (now + tx.settings.lease_ttl.signed()).min(pair.attempt.run_deadline);
        // A second rotation keeps the first one's expiry: a lost welcome renews nothing.
        let expires_at = if twice && stored_expiry > now {
            stored_expiry
        } else {
            renewed.max(stored_expiry)
        };
        let epoch = pair.job.epoch_counter + 1;
        let lease = ResumedLease {
            job: held.claim.job,
            attempt: held.claim.attempt,
            epoch,
            token: token.clone(),
            remaining: (expires_at - now).try_into().unwrap_or_default(),
        };
        let rotation = Rotation {
            facts: WhereFacts {
                job_id: held.claim.job.0,
                device_id: held.claim.device.0,
                epoch: fence.epoch,
                digest: if twice {
                    fence.digest.as_ref().map(hex_digest)
                } else {
                    Some(hex_digest(&held.token))
                },
                must_be_live: true,
                ..WhereFacts::of_row(fence)
            },
            replaced_epoch: held.claim.epoch,
            replaced_digest: hex_digest(&held.token),
            resumes: pair.attempt.resumes + i32::from(!twice),
            session: self.hello.session.0,
            new_epoch: epoch,
            new_digest: hex_digest(&token.digest()),
            expires_at: sql_time(expires_at),
        };
        HeldVerdict::Resume(lease, Some(Box::new(rotation)))
    }

    /// The end of a live attempt of an older session that does not go on.
    pub(super) fn end_left_over(&self, pair: &Pair, now: OffsetDateTime) -> Option<Finish> {
        let fence = &pair.attempt.fence;
        let mine = fence.device == self.hello.device && fence.status.is_held_by_agent();
        if !mine {
            return None;
        }
        let expired = fence.expires_at.is_none_or(|expires_at| expires_at <= now);
        let (cause, message) = match (pair.attempt.accepted, expired) {
            (false, _) => (
                Cause::Returned,
                "the device reconnected without accepting the offer",
            ),
            (true, true) => (
                Cause::Expired,
                "the lease ran out before the device came back",
            ),
            (true, false) if pair.attempt.resumes >= MAX_RESUMES => (
                Cause::ResumeBound,
                "the device came back again and again without progress",
            ),
            (true, false) => (
                Cause::Forgotten,
                "the device reconnected without this attempt",
            ),
        };
        let ending = decide(&pair.job.facts, cause, now);
        let end = Finish::attempt(pair, WhereFacts::of_row(fence), &ending);
        Some(end.message(message))
    }
}

/// A lease that was rotated already, as it is stored.
fn resumed(fence: &AttemptFence, token: &CommitToken, now: OffsetDateTime) -> ResumedLease {
    let expires_at = fence.expires_at.unwrap_or(now);
    ResumedLease {
        job: fence.job,
        attempt: fence.attempt,
        epoch: fence.epoch,
        token: token.clone(),
        remaining: (expires_at - now).try_into().unwrap_or_default(),
    }
}

/// By the reading that was judged by: whether the lease still lives at COMMIT is looked at there.
pub(super) async fn rotate(
    tx: &mut Tx,
    now: OffsetDateTime,
    rotations: &[Rotation],
) -> Result<(), StoreError> {
    if rotations.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(rotations)
        .map_err(|error| StoreError::inconsistent("attempts", error.to_string()))?;
    let row = sqlx::query!(
        r#"-- begin_session: rotate
        with rotated as (
            update attempts a set lease_epoch = e.new_epoch,
                token_digest = decode(e.new_digest, 'hex'), lease_expires_at = e.expires_at,
                session_number = e.session, accepted_at = coalesce(a.accepted_at, $2),
                replaced_epoch = e.replaced_epoch,
                replaced_digest = decode(e.replaced_digest, 'hex'), resumes = e.resumes
            from jsonb_to_recordset($1) as e(
                attempt_id uuid, job_id uuid, device_id uuid, epoch bigint, digest text,
                "from" text[], replaced_epoch bigint, replaced_digest text, resumes int,
                session bigint, new_epoch bigint, new_digest text,
                expires_at timestamptz)
            where a.id = e.attempt_id and a.ended_at is null and a.job_id = e.job_id
                and a.device_id = e.device_id and a.lease_epoch = e.epoch
                and a.token_digest = decode(e.digest, 'hex') and a.status::text = any(e."from")
                and a.lease_expires_at > $2
            returning a.job_id, a.lease_epoch
        ), counted as (
            update jobs j set epoch_counter = rotated.lease_epoch from rotated
            where j.id = rotated.job_id and j.status = 'active'
                and j.epoch_counter < rotated.lease_epoch
            returning 1
        )
        select (select count(*) from rotated) as "attempts!",
            (select count(*) from counted) as "jobs!""#,
        input,
        now
    )
    .fetch_one(&mut **tx)
    .await?;
    let expected = i64::try_from(rotations.len()).unwrap_or(i64::MAX);
    if (row.attempts, row.jobs) == (expected, expected) {
        Ok(())
    } else {
        Err(StoreError::inconsistent(
            "attempts",
            "resumed another number of leases than judged",
        ))
    }
}
