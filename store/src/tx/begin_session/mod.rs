//! A device says hello: its session becomes the current one, and what it holds is settled.
//!
//! Locks: the device; then, in statements with a newer snapshot, the jobs and attempts that were
//! leased under lower session numbers. Checks: no higher session has said hello; not the third
//! take-over in ten minutes by another agent process (the device is disabled then); each held lease by
//! the fence, where the pair that a resume replaced also counts, until a frame has presented the new
//! one (its welcome may have been lost). Writes, in one transaction: the session; resumed leases (a
//! new epoch, a new secret, a renewed lease: the old secret is dead for every frame); the loss of
//! accepted attempts that the agent does not list; the return of offers that nobody accepted. An
//! attempt that is committing belongs to the control plane and is left alone; so is one that was
//! claimed outside a session. While the clock is behind its mark nothing of this is decided, and nothing
//! written.

mod held;

use std::time::Duration;

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::{CommitToken, CommitTokenDigest};
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{AttemptId, DeviceId, InstanceId, JobId, SessionNumber};
use fencepost_domain::service::Capability;
use fencepost_domain::supersede::{self, Supersede};
use time::OffsetDateTime;
use uuid::Uuid;

use self::held::{HeldVerdict, Rotation, rotate};
use super::disable_device::disable;
use super::finish::finish;
use super::revoke::revoke_leases_of;
use crate::error::StoreError;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{LockedPairs, lock_pairs};
use crate::run::{Share, Store, Transaction, Tx};
use crate::secrets::mint_commit_token;

const IN_TWO_PLACES: &str = "two agents with this device's token took it over from each other: \
     pair each Mac once, then enable the device again";

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
    /// The device is disabled, or this session's token void.
    Refused,
    /// Two agents use the device's token and keep taking it over from each other: it was disabled.
    InTwoPlaces {
        /// Attempts that ended by it.
        ended: Vec<FinalizedAttempt>,
    },
    /// The clock is behind its mark by this much; nothing was changed.
    ClockRegressed(Duration),
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
    pub async fn begin_session(&self, hello: HelloFacts) -> Result<SessionAnswer, StoreError> {
        let tokens = hello.held.iter().map(|_| mint_commit_token()).collect();
        let draft = self.execute(BeginSession { hello, tokens }).await?;
        Ok(match draft {
            Draft::Superseded => SessionAnswer::Superseded,
            Draft::Refused => SessionAnswer::Refused,
            Draft::InTwoPlaces { ended } => SessionAnswer::InTwoPlaces {
                ended: ended
                    .into_iter()
                    .map(FinalizedAttempt::after_commit)
                    .collect(),
            },
            Draft::ClockRegressed(by) => SessionAnswer::ClockRegressed(by),
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
    InTwoPlaces {
        ended: Vec<Ended>,
    },
    ClockRegressed(Duration),
}

/// What a device says of itself in the database, locked.
struct LockedDevice {
    /// The number of the session that said hello last; 0 for none.
    current: i64,
    instance_id: Option<Uuid>,
    connected: bool,
    supersedes: Vec<OffsetDateTime>,
    now: OffsetDateTime,
    mark: OffsetDateTime,
}

impl Transaction for BeginSession {
    const NAME: &'static str = "begin_session";
    const SHARE: Share = Share::Reserved;
    type Output = Draft;

    async fn run(&self, tx: &mut Tx) -> Result<Draft, StoreError> {
        let Some(locked) = self.lock_device(tx).await? else {
            return Ok(Draft::Refused);
        };
        if locked.current > self.hello.session.0 {
            return Ok(Draft::Superseded);
        }
        let clock = ClockReading {
            now: locked.now,
            mark: locked.mark,
        };
        if let Some(by) = clock.regressed_by() {
            return Ok(Draft::ClockRegressed(by));
        }
        let Some(supersedes) = self.judge_supersede(&locked) else {
            let device = self.hello.device;
            disable(tx, device, Some(IN_TWO_PLACES)).await?;
            let ended = revoke_leases_of(tx, device, IN_TWO_PLACES).await?;
            return Ok(Draft::InTwoPlaces { ended });
        };
        let older = self.older_live_attempts(tx).await?;
        let mut ids = older.clone();
        ids.extend(self.hello.held.iter().map(|held| held.claim.attempt));
        ids.sort();
        ids.dedup();
        let locked = lock_pairs(tx, &ids).await?;
        // The clock may have gone back while the locks were waited for; nothing is written yet.
        if let Some(by) = locked.clock().regressed_by() {
            return Ok(Draft::ClockRegressed(by));
        }
        self.make_current(tx, &supersedes).await?;
        let Judged {
            resumed,
            recorded,
            lost,
            rotations,
        } = self.judge_all(tx, &locked);
        let mut ends = Vec::new();
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
        rotate(tx, locked.now, &rotations).await?;
        let ended = finish(tx, locked.now, ends).await?;
        Ok(Draft::Current {
            resumed,
            recorded,
            lost,
            ended,
        })
    }
}

/// What becomes of what the agent lists, each attempt once.
#[derive(Default)]
struct Judged {
    resumed: Vec<ResumedLease>,
    recorded: Vec<(AttemptId, AttemptStatus)>,
    lost: Vec<AttemptId>,
    rotations: Vec<Rotation>,
}

impl Judged {
    /// Whether a listing of the attempt was right.
    fn knows(&self, attempt: AttemptId) -> bool {
        self.resumed.iter().any(|lease| lease.attempt == attempt)
            || self.recorded.iter().any(|(known, _)| *known == attempt)
    }
}

impl BeginSession {
    /// An attempt that is listed twice is held if one of its listings is right.
    fn judge_all(&self, tx: &Tx, locked: &LockedPairs) -> Judged {
        let mut judged = Judged::default();
        let mut lost = Vec::new();
        for (held, token) in self.hello.held.iter().zip(&self.tokens) {
            let attempt = held.claim.attempt;
            if judged.knows(attempt) {
                continue;
            }
            match self.judge_held(tx, locked, held, token) {
                HeldVerdict::Resume(lease, rotation) => {
                    judged.resumed.push(lease);
                    judged.rotations.extend(rotation.map(|rotation| *rotation));
                }
                HeldVerdict::Recorded(status) => judged.recorded.push((attempt, status)),
                HeldVerdict::Lost => lost.push(attempt),
            }
        }
        lost.sort();
        lost.dedup();
        lost.retain(|attempt| !judged.knows(*attempt));
        judged.lost = lost;
        judged
    }

    /// `None` if there is no such device, or this session counts no more.
    async fn lock_device(&self, tx: &mut Tx) -> Result<Option<LockedDevice>, StoreError> {
        let found = sqlx::query_as!(
            LockedDevice,
            r#"-- begin_session: lock
            with device as materialized (
                select * from devices where id = $1 for no key update
            ), clock as materialized (
                select authority_mark() as mark, authority_now() as now
                from (select count(*) from device) is_locked
            )
            select coalesce(current_session, 0) as "current!", instance_id,
                (current_session is not null and disconnected_at is null
                    and gateway_runs(gateway_id)) as "connected!",
                supersedes as "supersedes!", clock.now as "now!", clock.mark as "mark!"
            from device, clock
            where enabled and token_digest is not null and void_through < $2"#,
            self.hello.device.0,
            self.hello.session.0
        );
        Ok(found.fetch_optional(&mut **tx).await?)
    }

    /// The take-overs to remember; `None` if this one is one too many.
    fn judge_supersede(&self, locked: &LockedDevice) -> Option<Vec<OffsetDateTime>> {
        let by_another = locked.connected
            && locked.current < self.hello.session.0
            && locked.instance_id != Some(self.hello.instance.0);
        if !by_another {
            return Some(locked.supersedes.clone());
        }
        match supersede::judge(&locked.supersedes, locked.now) {
            Supersede::Remember(times) => Some(times),
            Supersede::TooOften => None,
        }
    }

    async fn make_current(
        &self,
        tx: &mut Tx,
        supersedes: &[OffsetDateTime],
    ) -> Result<(), StoreError> {
        let hello = &self.hello;
        let words: Vec<String> = hello
            .capabilities
            .iter()
            .map(|word| word.0.clone())
            .collect();
        let written = sqlx::query!(
            r#"-- begin_session: make current
            update devices set current_session = $2, instance_id = $3, agent_version = $4,
                slots = $5, connected_at = authority_now(), disconnected_at = null,
                supersedes = $7, gateway_id = $8,
                words = $6 || array(select 'label:' || label from unnest(labels) as l(label))
                    || array(select 'own:' || own_org_id where own_org_id is not null)
            where id = $1 and session_counter >= $2 and coalesce(current_session, 0) <= $2"#,
            hello.device.0,
            hello.session.0,
            hello.instance.0,
            fencepost_domain::text::clean(&hello.agent_version, 60),
            i32::try_from(hello.slots.min(64)).unwrap_or(64),
            &words,
            supersedes,
            tx.gateway
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
            where device_id = $1 and ended_at is null and session_number < $2 and not claimed"#,
            self.hello.device.0,
            self.hello.session.0
        )
        .fetch_all(&mut **tx)
        .await?;
        Ok(ids.into_iter().map(AttemptId).collect())
    }
}
