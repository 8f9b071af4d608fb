//! A match round: leases waiting jobs to every free slot that was pulled for, in one transaction.
//!
//! Locks: the devices that pull (current session, enabled, not draining: checked again under the
//! lock), then the orgs with jobs for them; in a second statement, whose snapshot is newer than those
//! locks, the jobs that it may take (`SKIP LOCKED`: another gateway's are not waited for). So the
//! slots of a device and the limit of an org are exact across gateways.
//! Checks: `domain::matcher` decides, on locked rows, who gets what.
//! Writes: attempts with epoch, digest and output key; `queued → active`. A job that still has a
//! live attempt is left out by the unique index and counted as a violated invariant.
//! While the clock is behind its mark nothing is leased.
//!
//! A claim outside a session is a round for one device, with what that has already locked.
//!
//! This is the file in which a lease is granted.

mod grant;
mod lock;
mod pick;

use std::time::Duration;

use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, OrgId, RequestId, SessionNumber};
use fencepost_domain::matcher::assign;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Share, Store, Transaction, Tx};
use crate::secrets::mint_commit_token;

/// A device asks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// The device.
    pub device: DeviceId,
    /// The session that asks; only the device's current one is leased to.
    pub session: SessionNumber,
    /// How many attempts it can take.
    pub slots_free: u32,
}

/// Where the next round begins to look, so that many orgs with many lanes all get their turn though
/// no round reads more than a bounded number of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    lane: String,
    org: Uuid,
}

/// What a round did.
#[derive(Debug)]
pub struct RoundReport {
    /// What was leased. The plaintext tokens are in here, for the offers, and nowhere else.
    pub leased: Vec<LeasedAttempt>,
    /// Whether attempts or waiting jobs are due: sweep, then ask again.
    pub due: bool,
    /// The clock is behind its mark by this much: nothing is leased for so long.
    pub clock_regressed_by: Option<Duration>,
    /// Give it to the next round.
    pub cursor: Cursor,
}

/// A lease to be offered.
#[derive(Debug, Clone)]
pub struct LeasedAttempt {
    /// The job.
    pub job: JobId,
    /// Whose job it is: the lease's scope.
    pub org: OrgId,
    /// The attempt.
    pub attempt: AttemptId,
    /// Which attempt of the job it is.
    pub attempt_number: i32,
    /// The device it was leased to.
    pub device: DeviceId,
    /// The epoch.
    pub epoch: i64,
    /// The secret. It leaves once, in the offer.
    pub token: CommitToken,
    /// The accept deadline.
    pub expires_at: OffsetDateTime,
    /// From when it was decided.
    pub remaining: Duration,
    /// Until when links to its objects can be used.
    pub grant_expires_at: OffsetDateTime,
    /// The service.
    pub service: String,
    /// Its parameters.
    pub params: Value,
    /// Its inputs, as the comment on their column has them.
    pub inputs: Value,
    /// The object that it may write.
    pub output_key: String,
    /// The longest output.
    pub max_output_seconds: u32,
    /// The longest run.
    pub max_run: Duration,
}

impl Store {
    /// Leases jobs for standing pulls. Pulls of sessions that are not current get nothing.
    pub async fn lease_round(
        &self,
        pulls: Vec<Pull>,
        cursor: Cursor,
    ) -> Result<RoundReport, StoreError> {
        let wanted: u32 = pulls
            .iter()
            .map(|pull| pull.slots_free.min(MAX_SLOTS))
            .sum();
        let wanted = wanted.min(MAX_LEASES);
        // Ids and secrets are made before the transaction: a second run, after an unknown COMMIT,
        // finds the first one's attempts by them.
        self.execute(LeaseRound {
            pulls,
            seeds: (0..wanted).map(|_| Seed::new()).collect(),
            cursor,
            claim: None,
        })
        .await
    }
}

/// The most slots of one device, as the schema has it; an agent may say anything.
const MAX_SLOTS: u32 = 64;
/// The most leases of one round; who is left waits for the next.
const MAX_LEASES: u32 = 256;
/// The most (lane, org) pairs that one round looks at.
const MAX_PAIRS: i32 = 256;

pub(super) struct LeaseRound {
    pub(super) pulls: Vec<Pull>,
    pub(super) seeds: Vec<Seed>,
    pub(super) cursor: Cursor,
    pub(super) claim: Option<Claiming>,
}

/// A round for a device that claims outside a session. The claim has locked and judged the device.
#[derive(Debug)]
pub(super) struct Claiming {
    /// What the claim is called, for as long as its epoch is not presented.
    pub(super) request: RequestId,
    /// The words that its worker has, with the device's own labels.
    pub(super) words: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Seed {
    pub(super) attempt: AttemptId,
    token: CommitToken,
}

impl Seed {
    pub(super) fn new() -> Self {
        Self {
            attempt: AttemptId::new(),
            token: mint_commit_token(),
        }
    }
}

impl Transaction for LeaseRound {
    const NAME: &'static str = "lease_round";
    const SHARE: Share = Share::Reserved;
    type Output = RoundReport;

    async fn run(&self, tx: &mut Tx) -> Result<RoundReport, StoreError> {
        if tx.rerun && self.claim.is_none() {
            self.wait_for_earlier_run(tx).await?;
            let leased = self.leased_before(tx).await?;
            if !leased.is_empty() {
                return Ok(RoundReport {
                    leased,
                    due: false,
                    clock_regressed_by: None,
                    cursor: self.cursor.clone(),
                });
            }
        }
        let locked = self.lock_rooms(tx).await?;
        let mut report = RoundReport {
            leased: Vec::new(),
            due: locked.due,
            clock_regressed_by: locked.regressed_by,
            cursor: locked.cursor.clone(),
        };
        if locked.orgs.is_empty() || locked.regressed_by.is_some() {
            return Ok(report);
        }
        let waiting = pick::pick(tx, &locked, self.seeds.len()).await?;
        let rooms = self.rooms(&locked, &waiting);
        let orgs = pick::org_rooms(&locked, &waiting);
        let candidates: Vec<_> = waiting
            .jobs
            .iter()
            .map(|job| job.candidate.clone())
            .collect();
        let mut assignments = assign(rooms, &candidates, &orgs);
        assignments.truncate(self.seeds.len());
        if !assignments.is_empty() {
            let granted = self.grant(tx, &waiting, &assignments).await?;
            count_blocked(assignments.len() - granted.len());
            report.leased = self.with_tokens(granted)?;
        }
        Ok(report)
    }
}

impl LeaseRound {
    /// What an earlier run of this very round leased, as far as it is still live.
    pub(super) async fn leased_before(
        &self,
        tx: &mut Tx,
    ) -> Result<Vec<LeasedAttempt>, StoreError> {
        let granted = self.find_granted(tx).await?;
        self.with_tokens(granted)
    }
}

/// Jobs that were assigned and not inserted: each still has a live attempt, which cannot be.
fn count_blocked(blocked: usize) {
    if blocked > 0 {
        let id = "queued_job_has_live_attempt";
        metrics::counter!("fencepost_invariant_violations_total", "id" => id)
            .increment(blocked as u64);
        tracing::error!(
            blocked,
            "queued jobs still have a live attempt and were not leased again"
        );
    }
}

fn read_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, StoreError> {
    serde_json::from_value(value)
        .map_err(|error| StoreError::inconsistent("devices", error.to_string()))
}
