//! A device claims a lease outside a session: a worker of its own, which may span processes.
//!
//! Locks: the request, the device, then as a match round does. Checks: the device is enabled, not
//! draining, and the token is still its own; a device that failed a lot of late gets nothing, as in a
//! round. Writes: what a round writes, but the lease counts as accepted, and no hello has to do with
//! it. A device that has never said hello has the slots that its claims say.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_domain::ids::{DeviceId, RequestId, SessionNumber};
use fencepost_domain::service::Capability;

use super::lease_round::{Claiming, Cursor, LeaseRound, LeasedAttempt, Pull, RoundReport, Seed};
use super::once::{Asked, Once, Outcome, Repeatable, RequestKey};
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::secrets::Credential;

pub use super::once::Claimed;

const MAX_SLOTS: i32 = 64;

/// A claim.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The device that authenticated.
    pub device: DeviceId,
    /// Its token, which must still be its own when the device is locked.
    pub token: Credential,
    /// What it calls the request.
    pub id: RequestId,
    /// What the worker can do; `None` is what the device's agent said last.
    pub capabilities: Option<BTreeSet<Capability>>,
    /// How many attempts the device takes at once, if it has never said hello.
    pub slots: u32,
}

/// The answer to a claim.
#[derive(Debug, Clone)]
pub enum ClaimAnswer {
    /// A lease, with its secret: this once.
    Leased(Box<LeasedAttempt>),
    /// It was granted before. Its secret is not handed out again.
    Before(Claimed),
    /// Nothing for this device now. Whether something is due: sweep, then ask again.
    Nothing {
        /// Sweep first.
        due: bool,
    },
    /// Nothing is leased while the clock is behind its mark.
    ClockRegressed {
        /// By how much.
        by: Duration,
    },
    /// The device is disabled, or the token not its own any more.
    Unauthorized,
}

impl Store {
    /// Leases one job to a device outside a session, and says where the next claim begins to look.
    pub async fn claim_lease(
        &self,
        request: LeaseRequest,
        cursor: Cursor,
    ) -> Result<(Asked<ClaimAnswer>, Cursor), StoreError> {
        let words = request.capabilities.iter().flatten();
        let words: Vec<&str> = words.map(|word| word.0.as_str()).collect();
        let words = words.join(" ");
        let given = [u8::from(request.capabilities.is_some())];
        let slots = request.slots.to_be_bytes();
        let parts: [&[u8]; 3] = [&given, words.as_bytes(), &slots];
        let key = RequestKey::new(request.device, "claim", request.id, &parts);
        let inner = ClaimLease {
            request,
            seed: Seed::new(),
            cursor: cursor.clone(),
        };
        let asked = self.execute(Once { key, inner }).await?;
        let mut next = cursor;
        let asked = asked.map(|draft| {
            next = draft.cursor;
            draft.answer
        });
        Ok((asked, next))
    }
}

struct ClaimLease {
    request: LeaseRequest,
    /// Made beforehand, so that a second run gives the same.
    seed: Seed,
    cursor: Cursor,
}

struct Draft {
    answer: ClaimAnswer,
    cursor: Cursor,
}

struct LockedDevice {
    connected_before: bool,
    words: Vec<String>,
    marks: Vec<String>,
}

impl Transaction for ClaimLease {
    const NAME: &'static str = "claim_lease";
    type Output = Draft;

    async fn run(&self, tx: &mut Tx) -> Result<Draft, StoreError> {
        let Some(device) = self.lock_device(tx).await? else {
            return Ok(self.draft(ClaimAnswer::Unauthorized));
        };
        tx.point("locked").await;
        if !device.connected_before {
            self.write_slots(tx).await?;
        }
        let report = self.round(self.words(device)).run(tx).await?;
        Ok(answer(report))
    }
}

impl ClaimLease {
    fn draft(&self, answer: ClaimAnswer) -> Draft {
        let cursor = self.cursor.clone();
        Draft { answer, cursor }
    }

    fn round(&self, words: Vec<String>) -> LeaseRound {
        LeaseRound {
            pulls: vec![Pull {
                device: self.request.device,
                session: SessionNumber(0),
                slots_free: 1,
            }],
            seeds: vec![self.seed.clone()],
            cursor: self.cursor.clone(),
            claim: Some(Claiming {
                request: self.request.id,
                words,
            }),
        }
    }

    fn words(&self, device: LockedDevice) -> Vec<String> {
        match &self.request.capabilities {
            None => device.words,
            Some(capabilities) => {
                let proven = capabilities.iter().map(|word| word.0.clone());
                proven.chain(device.marks).collect()
            }
        }
    }

    /// `None` if it is disabled or the token is not its own.
    async fn lock_device(&self, tx: &mut Tx) -> Result<Option<LockedDevice>, StoreError> {
        let found = sqlx::query_as!(
            LockedDevice,
            r#"-- claim_lease: lock
            with device as materialized (
                select * from devices where id = $1 for no key update
            )
            select (connected_at is not null) as "connected_before!", words,
                array(select 'label:' || label from unnest(labels) as l(label))
                    || array(select 'own:' || own_org_id where own_org_id is not null) as "marks!"
            from device where enabled and token_digest = $2"#,
            self.request.device.0,
            &self.request.token.digest()[..]
        );
        Ok(found.fetch_optional(&mut **tx).await?)
    }

    async fn write_slots(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let slots = i32::try_from(self.request.slots).unwrap_or(MAX_SLOTS);
        sqlx::query!(
            r#"-- claim_lease: slots
            update devices set slots = $2
            where id = $1 and connected_at is null and slots <> $2
                -- never below what it holds already
                and $2 >= (select count(*) from attempts where device_id = $1 and ended_at is null)"#,
            self.request.device.0,
            slots.clamp(1, MAX_SLOTS)
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}

fn answer(report: RoundReport) -> Draft {
    let RoundReport {
        mut leased,
        due,
        cursor,
        clock_regressed_by,
    } = report;
    let answer = match (leased.pop(), clock_regressed_by) {
        (Some(lease), _) => ClaimAnswer::Leased(Box::new(lease)),
        (None, Some(by)) => ClaimAnswer::ClockRegressed { by },
        (None, None) => ClaimAnswer::Nothing { due },
    };
    Draft { answer, cursor }
}

impl Repeatable for ClaimLease {
    fn outcome(draft: &Draft) -> Option<Outcome> {
        match &draft.answer {
            ClaimAnswer::Leased(lease) => Some(Outcome::Claimed(Claimed {
                job: lease.job,
                attempt: lease.attempt,
                epoch: lease.epoch,
                expires_at: lease.expires_at,
            })),
            ClaimAnswer::Before(_)
            | ClaimAnswer::Nothing { .. }
            | ClaimAnswer::ClockRegressed { .. }
            | ClaimAnswer::Unauthorized => None,
        }
    }

    async fn again(&self, tx: &mut Tx, outcome: Outcome) -> Result<Draft, StoreError> {
        let Outcome::Claimed(claimed) = outcome else {
            let what = format!("the claim {} has another outcome", self.request.id);
            return Err(StoreError::inconsistent("device_requests", what));
        };
        // An earlier run of this very call made it, and nobody has heard of it.
        if tx.rerun && claimed.attempt == self.seed.attempt {
            let mut leased = self.round(Vec::new()).leased_before(tx).await?;
            if let Some(lease) = leased.pop() {
                return Ok(self.draft(ClaimAnswer::Leased(Box::new(lease))));
            }
        }
        Ok(self.draft(ClaimAnswer::Before(claimed)))
    }
}
