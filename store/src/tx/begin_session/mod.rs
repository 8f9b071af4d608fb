//! A device says hello: its session becomes the current one, and what it holds is settled.
//!
//! Locks: the device; then, in statements with a newer snapshot, the jobs and attempts that were
//! leased under lower session numbers. Checks: no higher session has said hello; each held lease by
//! the fence, where the pair that a resume replaced also counts, until a frame has presented the new
//! one (its welcome may have been lost). Writes, in one transaction: the session; resumed leases (a
//! new epoch, a new secret, a renewed lease: the old secret is dead for every frame); the loss of
//! accepted attempts that the agent does not list; the return of offers that nobody accepted. An
//! attempt that is committing belongs to the control plane and is left alone.

mod held;

use std::collections::HashSet;
use std::time::Duration;

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::commit_token::{CommitToken, CommitTokenDigest};
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{AttemptId, DeviceId, InstanceId, JobId, SessionNumber};
use fencepost_domain::service::Capability;

use self::held::{HeldVerdict, rotate};
use super::finish::finish;
use crate::error::StoreError;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::lock_pairs;
use crate::run::{Store, Transaction, Tx};
use crate::secrets::mint_commit_token;

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
}
