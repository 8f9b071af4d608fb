//! A request that may be repeated over HTTP: its answer is worked out once, and stored with it.
//!
//! Locks: the request's own row, first of all: who asks the same at the same time waits for it.
//! Checks: the same content; before anything about leases or the clock. Writes: the outcome, in the
//! transaction that made it. An answer that means "ask again" leaves no row.

use std::future::Future;

use fencepost_domain::fencing::FenceViolation;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, RequestId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::Refusal;
use super::grant_objects::Granted;
use super::record_progress::Renewal;
use crate::error::StoreError;
use crate::run::{Share, Transaction, Tx};

/// Which request it is.
#[derive(Debug, Clone)]
pub struct RequestKey {
    pub(super) device: DeviceId,
    pub(super) id: RequestId,
    operation: &'static str,
    content: Vec<u8>,
}

impl RequestKey {
    /// The request `id` of a device for an operation (`claim`, `progress`, `renew`, `grant`,
    /// `commit`, `fail`, `release`). `parts` are what it means; of a secret, its digest.
    pub fn new(device: DeviceId, operation: &'static str, id: RequestId, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self {
            device,
            id,
            operation,
            content: hasher.finalize().to_vec(),
        }
    }
}

/// The answer to a request that may be a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked<T> {
    /// It was asked for the first time.
    First(T),
    /// It was asked before, and this was the answer.
    Again(T),
    /// Something else was asked before under the same id; nothing was changed.
    OtherContent,
}

impl<T> Asked<T> {
    /// The same with another answer.
    pub(super) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Asked<U> {
        match self {
            Self::First(answer) => Asked::First(convert(answer)),
            Self::Again(answer) => Asked::Again(convert(answer)),
            Self::OtherContent => Asked::OtherContent,
        }
    }
}

/// What is remembered of an answer. Never a secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Outcome {
    Claimed(Claimed),
    Renewed {
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    Verifying,
    Stop {
        reason: String,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    Granted(Granted),
    /// The attempt's row remembers it: ask that once more.
    OnAttempt,
    Refused {
        why: Why,
    },
}

/// A claim that was granted, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptId,
    /// The epoch of the claim.
    pub epoch: i64,
    /// When the lease ended unless it was renewed.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
}

/// As much of a refusal as its answer tells; the rest is one and the same to the wire.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Why {
    NotExtending,
    TooManyObjects,
    UngrantedObject,
    Other,
}

impl Outcome {
    /// `None` for a refusal that asks to come again.
    pub(super) fn of_refusal(refusal: Refusal) -> Option<Self> {
        let why = match refusal {
            Refusal::Fence(FenceViolation::ClockRegressed { .. }) => return None,
            Refusal::NotExtending => Why::NotExtending,
            Refusal::TooManyObjects => Why::TooManyObjects,
            Refusal::UngrantedObject => Why::UngrantedObject,
            _ => Why::Other,
        };
        Some(Self::Refused { why })
    }

    /// The refusal that this is the memory of.
    pub(super) fn refusal(&self) -> Refusal {
        match self {
            Self::Refused {
                why: Why::NotExtending,
            } => Refusal::NotExtending,
            Self::Refused {
                why: Why::TooManyObjects,
            } => Refusal::TooManyObjects,
            Self::Refused {
                why: Why::UngrantedObject,
            } => Refusal::UngrantedObject,
            _ => Refusal::RefusedBefore,
        }
    }
}

/// A transaction whose answer can be remembered.
pub(super) trait Repeatable: Transaction {
    /// What to remember; `None` for "ask again".
    fn outcome(answer: &Self::Output) -> Option<Outcome>;
    /// The answer to a repeat.
    fn again(
        &self,
        tx: &mut Tx,
        outcome: Outcome,
    ) -> impl Future<Output = Result<Self::Output, StoreError>> + Send;
}

/// A transaction under a request's id.
pub(super) struct Once<X> {
    pub(super) key: RequestKey,
    pub(super) inner: X,
}

impl<X: Repeatable> Transaction for Once<X>
where
    X::Output: Sync,
{
    const NAME: &'static str = X::NAME;
    const SHARE: Share = X::SHARE;
    type Output = Asked<X::Output>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        if !self.key.is_new(tx).await? {
            let (content, outcome) = self.key.stored(tx).await?;
            if content != self.key.content {
                return Ok(Asked::OtherContent);
            }
            let answer = self.inner.again(tx, outcome).await?;
            // An earlier run of this very call may have written it, which nobody has heard of.
            return Ok(if tx.rerun {
                Asked::First(answer)
            } else {
                Asked::Again(answer)
            });
        }
        let answer = self.inner.run(tx).await?;
        match X::outcome(&answer) {
            Some(outcome) => self.key.remember(tx, &outcome).await?,
            None => self.key.forget(tx).await?,
        }
        Ok(Asked::First(answer))
    }
}

impl RequestKey {
    /// Takes the row. Waits for whoever asks the same at this moment.
    async fn is_new(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let inserted = sqlx::query!(
            r#"-- once: take
            insert into device_requests (device_id, operation, request_id, content)
            values ($1, $2, $3, $4) on conflict do nothing"#,
            self.device.0,
            self.operation,
            self.id.0,
            &self.content
        )
        .execute(&mut **tx)
        .await?;
        Ok(inserted.rows_affected() == 1)
    }

    /// In a statement of its own, whose snapshot has what was waited for.
    async fn stored(&self, tx: &mut Tx) -> Result<(Vec<u8>, Outcome), StoreError> {
        let row = sqlx::query!(
            r#"-- once: find
            select content, outcome from device_requests
            where device_id = $1 and operation = $2 and request_id = $3"#,
            self.device.0,
            self.operation,
            self.id.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        // It can only have been forgotten in between; the same transaction takes it then.
        let row = row.ok_or_else(|| StoreError::Unavailable("a request is gone".to_owned()))?;
        let outcome = row.outcome.map(serde_json::from_value::<Outcome>);
        match outcome {
            Some(Ok(outcome)) => Ok((row.content, outcome)),
            Some(Err(_)) | None => Err(StoreError::inconsistent(
                "device_requests",
                format!("request {} has no readable outcome", self.id),
            )),
        }
    }

    async fn remember(&self, tx: &mut Tx, outcome: &Outcome) -> Result<(), StoreError> {
        let outcome = serde_json::to_value(outcome)
            .map_err(|error| StoreError::inconsistent("device_requests", error.to_string()))?;
        let written = sqlx::query!(
            r#"-- once: remember
            update device_requests set outcome = $4
            where device_id = $1 and operation = $2 and request_id = $3 and outcome is null"#,
            self.device.0,
            self.operation,
            self.id.0,
            outcome
        )
        .execute(&mut **tx)
        .await?;
        self.expect_one(written.rows_affected())
    }

    async fn forget(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let written = sqlx::query!(
            r#"-- once: forget
            delete from device_requests
            where device_id = $1 and operation = $2 and request_id = $3 and outcome is null"#,
            self.device.0,
            self.operation,
            self.id.0
        )
        .execute(&mut **tx)
        .await?;
        self.expect_one(written.rows_affected())
    }

    fn expect_one(&self, rows: u64) -> Result<(), StoreError> {
        if rows == 1 {
            return Ok(());
        }
        let what = format!("request {}: {rows} rows", self.id);
        Err(StoreError::inconsistent("device_requests", what))
    }
}

/// What is left at this moment of a lease that was to end at `expires_at`: whoever counts from a
/// repeat must not count what has gone by since.
pub(super) async fn what_is_left(
    tx: &mut Tx,
    expires_at: OffsetDateTime,
) -> Result<Renewal, StoreError> {
    let now = sqlx::query_scalar!(
        r#"-- once: clock
        select authority_now() as "now!""#
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(Renewal::new(expires_at, now))
}
