//! A device says hello: its session becomes the current one, and what it holds is settled.
//!
//! Locks: the device; then, in statements with a newer snapshot, the jobs and attempts that were
//! leased under lower session numbers. Checks: no higher session has said hello; each held lease by
//! the fence, where the pair that a resume replaced also counts, until a frame has presented the new
//! one (its welcome may have been lost). Writes, in one transaction: the session; resumed leases (a new epoch, a new secret, a
//! renewed lease: the old secret is dead for every frame); the loss of accepted attempts that the
//! agent does not list; the return of offers that nobody accepted. An attempt that is committing
//! belongs to the control plane and is left alone.

use std::collections::HashSet;
use std::time::Duration;

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::commit_token::{CommitToken, CommitTokenDigest};
use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::fencing::{AttemptFence, LeaseClaim, Operation, check};
use fencepost_domain::ids::{AttemptId, DeviceId, InstanceId, JobId, SessionNumber};
use fencepost_domain::job::JobStatus;
use fencepost_domain::service::Capability;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::finish::{Finish, finish};
use crate::error::StoreError;
use crate::fence::{WhereFacts, hex};
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{LockedPairs, Pair, lock_pairs};
use crate::run::{Store, Transaction, Tx};
use crate::secrets::mint_commit_token;

/// After so many resumes in a row without any gain, an attempt is lost.
const MAX_RESUMES: i32 = 10;

/// What a device says of itself when it connects.
#[derive(Debug, Clone)]
pub struct HelloFacts {
    /// The device that authenticated.
    pub device: DeviceId,
    /// The number that was minted for this session.
    pub session: SessionNumber,
    /// The agent's process.
    pub instance: InstanceId,
    /// Its version.
    pub agent_version: String,
    /// How many attempts it takes at once.
    pub slots: u32,
    /// What it has proven.
    pub capabilities: Vec<Capability>,
    /// The leases it still holds.
    pub held: Vec<Held>,
}

/// A lease that an agent says it holds.
#[derive(Debug, Clone)]
pub struct Held {
    /// The lease.
    pub claim: LeaseClaim,
    /// SHA-256 of the secret that it presented.
    pub token: CommitTokenDigest,
}

/// The answer to a hello.
#[derive(Debug)]
pub enum SessionAnswer {
    /// The session is the current one.
    Current {
        /// Leases that go on.
        resumed: Vec<ResumedLease>,
        /// Attempts whose commit, fail or release is stored, with their status.
        recorded: Vec<(AttemptId, AttemptStatus)>,
        /// Held leases that are gone.
        lost: Vec<AttemptId>,
        /// Attempts that ended by this hello.
        ended: Vec<FinalizedAttempt>,
    },
    /// A newer session has said hello.
    Superseded,
    /// The device is disabled or its token void.
    Refused,
}

/// A lease that goes on under a new epoch and secret.
#[derive(Debug, Clone)]
pub struct ResumedLease {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptId,
    /// The new epoch.
    pub epoch: i64,
    /// The new secret.
    pub token: CommitToken,
    /// How long the renewed lease is.
    pub remaining: Duration,
}

impl Store {
    /// Makes a session current and settles what its device holds.
    pub async fn begin_session(&self, mut hello: HelloFacts) -> Result<SessionAnswer, StoreError> {
        // An attempt that is listed twice is held once: the first listing counts.
        let mut seen = HashSet::new();
        hello.held.retain(|held| seen.insert(held.claim.attempt));
        let tokens = hello.held.iter().map(|_| mint_commit_token()).collect();
        let draft = self.execute(BeginSession { hello, tokens }).await?;
        Ok(match draft {
            Draft::Superseded => SessionAnswer::Superseded,
            Draft::Refused => SessionAnswer::Refused,
            Draft::Current {
                resumed,
                recorded,
                lost,
                ended,
            } => SessionAnswer::Current {
                resumed,
                recorded,
                lost,
                ended: ended
                    .into_iter()
                    .map(FinalizedAttempt::after_commit)
                    .collect(),
            },
        })
    }
}

struct BeginSession {
    hello: HelloFacts,
    /// One new secret for each held lease, made beforehand so that a second run gives the same.
    tokens: Vec<CommitToken>,
}

enum Draft {
    Current {
        resumed: Vec<ResumedLease>,
        recorded: Vec<(AttemptId, AttemptStatus)>,
        lost: Vec<AttemptId>,
        ended: Vec<Ended>,
    },
    Superseded,
    Refused,
}

#[derive(Serialize)]
struct Rotation {
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

impl Transaction for BeginSession {
    const NAME: &'static str = "begin_session";
    type Output = Draft;

    async fn run(&self, tx: &mut Tx) -> Result<Draft, StoreError> {
        match self.lock_device(tx).await? {
            Some(current) if current > self.hello.session.0 => return Ok(Draft::Superseded),
            Some(_) => {}
            None => return Ok(Draft::Refused),
        }
        self.make_current(tx).await?;
        let older = self.older_live_attempts(tx).await?;
        let mut ids = older.clone();
        ids.extend(self.hello.held.iter().map(|held| held.claim.attempt));
        ids.sort();
        ids.dedup();
        let locked = lock_pairs(tx, &ids).await?;
        let (mut resumed, mut recorded, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rotations, mut ends) = (Vec::new(), Vec::new());
        for (held, token) in self.hello.held.iter().zip(&self.tokens) {
            match self.judge_held(tx, &locked, held, token) {
                HeldVerdict::Resume(lease, rotation) => {
                    resumed.push(lease);
                    rotations.extend(rotation.map(|rotation| *rotation));
                }
                HeldVerdict::Recorded(status) => recorded.push((held.claim.attempt, status)),
                HeldVerdict::Lost => lost.push(held.claim.attempt),
            }
        }
        for pair in &locked.pairs {
            let attempt = pair.attempt.fence.attempt;
            let kept = resumed.iter().any(|lease| lease.attempt == attempt);
            if !kept
                && older.contains(&attempt)
                && let Some(end) = self.end_left_over(pair, locked.now)
            {
                ends.push(end);
            }
        }
        rotate(tx, &rotations).await?;
        let ended = finish(tx, locked.now, ends).await?;
        Ok(Draft::Current {
            resumed,
            recorded,
            lost,
            ended,
        })
    }
}

enum HeldVerdict {
    /// Without a rotation if an earlier run of this very hello made it.
    Resume(ResumedLease, Option<Box<Rotation>>),
    Recorded(AttemptStatus),
    Lost,
}

impl BeginSession {
    /// The number of the session that said hello last (0 for none); `None` for no such device.
    async fn lock_device(&self, tx: &mut Tx) -> Result<Option<i64>, StoreError> {
        let current = sqlx::query_scalar!(
            r#"-- begin_session: lock
            select coalesce(current_session, 0) as "current!" from devices
            where id = $1 and enabled and token_digest is not null
            for no key update"#,
            self.hello.device.0
        );
        Ok(current.fetch_optional(&mut **tx).await?)
    }

    async fn make_current(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let hello = &self.hello;
        let words: Vec<String> = hello
            .capabilities
            .iter()
            .map(|word| word.0.clone())
            .collect();
        let written = sqlx::query!(
            r#"-- begin_session: make current
            update devices set current_session = $2, instance_id = $3, agent_version = $4,
                slots = $5, connected_at = authority_now(),
                words = $6 || array(select 'label:' || label from unnest(labels) as l(label))
                    || array(select 'own:' || own_org_id where own_org_id is not null)
            where id = $1 and session_counter >= $2 and coalesce(current_session, 0) <= $2"#,
            hello.device.0,
            hello.session.0,
            hello.instance.0,
            fencepost_domain::text::clean(&hello.agent_version, 60),
            i32::try_from(hello.slots.min(64)).unwrap_or(64),
            &words
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        if written == 1 {
            Ok(())
        } else {
            Err(StoreError::inconsistent(
                "devices",
                "a session number that was never minted",
            ))
        }
    }

    async fn older_live_attempts(&self, tx: &mut Tx) -> Result<Vec<AttemptId>, StoreError> {
        let ids = sqlx::query_scalar!(
            r#"-- begin_session: find
            select id from attempts
            where device_id = $1 and ended_at is null and session_number < $2"#,
            self.hello.device.0,
            self.hello.session.0
        )
        .fetch_all(&mut **tx)
        .await?;
        Ok(ids.into_iter().map(AttemptId).collect())
    }

    fn judge_held(
        &self,
        tx: &Tx,
        locked: &LockedPairs,
        held: &Held,
        token: &CommitToken,
    ) -> HeldVerdict {
        let Some(pair) = locked.find(held.claim.attempt) else {
            return HeldVerdict::Lost;
        };
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
            locked.now,
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
        let stored_expiry = fence.expires_at.unwrap_or(now);
        let twice = fence.epoch != held.claim.epoch;
        let renewed = (now + tx.settings.lease_ttl.signed()).min(pair.attempt.run_deadline);
        // A second rotation keeps the first one's expiry: a lost welcome renews nothing.
        let expires_at = if twice {
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
                    fence.digest.as_ref().map(hex)
                } else {
                    Some(hex(&held.token))
                },
                must_be_live: true,
                ..WhereFacts::of_row(fence)
            },
            replaced_epoch: held.claim.epoch,
            replaced_digest: hex(&held.token),
            resumes: pair.attempt.resumes + i32::from(!twice),
            session: self.hello.session.0,
            new_epoch: epoch,
            new_digest: hex(&token.digest()),
            // RFC 3339 cannot fail for the years that Postgres hands out.
            expires_at: expires_at.format(&Rfc3339).unwrap_or_default(),
        };
        HeldVerdict::Resume(lease, Some(Box::new(rotation)))
    }

    /// The end of a live attempt of an older session that does not go on.
    fn end_left_over(&self, pair: &Pair, now: OffsetDateTime) -> Option<Finish> {
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

async fn rotate(tx: &mut Tx, rotations: &[Rotation]) -> Result<(), StoreError> {
    if rotations.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(rotations)
        .map_err(|error| StoreError::inconsistent("attempts", error.to_string()))?;
    let row = sqlx::query!(
        r#"-- begin_session: rotate
        with clock as materialized (
            select authority_now() as now
        ), rotated as (
            update attempts a set lease_epoch = e.new_epoch,
                token_digest = decode(e.new_digest, 'hex'), lease_expires_at = e.expires_at,
                session_number = e.session, accepted_at = coalesce(a.accepted_at, clock.now),
                replaced_epoch = e.replaced_epoch,
                replaced_digest = decode(e.replaced_digest, 'hex'), resumes = e.resumes
            from clock, jsonb_to_recordset($1) as e(
                attempt_id uuid, job_id uuid, device_id uuid, epoch bigint, digest text,
                "from" text[], replaced_epoch bigint, replaced_digest text, resumes int,
                session bigint, new_epoch bigint, new_digest text,
                expires_at timestamptz)
            where a.id = e.attempt_id and a.ended_at is null and a.job_id = e.job_id
                and a.device_id = e.device_id and a.lease_epoch = e.epoch
                and a.token_digest = decode(e.digest, 'hex') and a.status::text = any(e."from")
                and a.lease_expires_at > clock.now
            returning a.job_id, a.lease_epoch
        ), counted as (
            update jobs j set epoch_counter = rotated.lease_epoch from rotated
            where j.id = rotated.job_id and j.status = 'active'
                and j.epoch_counter < rotated.lease_epoch
            returning 1
        )
        select (select count(*) from rotated) as "attempts!",
            (select count(*) from counted) as "jobs!""#,
        input
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
