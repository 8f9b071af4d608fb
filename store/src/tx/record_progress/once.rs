//! Progress and explicit renewals under a request's id.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::fencing::LeaseClaim;
use time::OffsetDateTime;

use super::{Progress, ProgressAnswer, RecordProgress};
use crate::error::StoreError;
use crate::run::{Store, Tx};
use crate::tx::Refusal;
use crate::tx::once::{Asked, Once, Outcome, Repeatable, RequestKey, what_is_left};

impl Store {
    /// Records progress under a request's id.
    pub async fn record_progress_once(
        &self,
        key: RequestKey,
        progress: Progress,
    ) -> Result<Asked<ProgressAnswer>, StoreError> {
        self.progress_once(key, progress, None).await
    }

    /// Renews a lease, under a request's id: to `length` from now on, and no longer than leases
    /// are. A renewal that would not extend the lease is refused.
    pub async fn renew_lease(
        &self,
        key: RequestKey,
        claim: LeaseClaim,
        length: Option<LeaseDuration>,
    ) -> Result<Asked<ProgressAnswer>, StoreError> {
        let progress = Progress {
            claim,
            phase: None,
            percent: None,
            detail: None,
        };
        let length = length.unwrap_or(self.settings().lease_ttl);
        self.progress_once(key, progress, Some(length)).await
    }

    async fn progress_once(
        &self,
        key: RequestKey,
        progress: Progress,
        renewal: Option<LeaseDuration>,
    ) -> Result<Asked<ProgressAnswer>, StoreError> {
        let inner = RecordProgress {
            progress: vec![progress],
            wait: true,
            renewal,
        };
        let unknown = ProgressAnswer::Refused(Refusal::UnknownAttempt);
        let asked = self.execute(Once { key, inner }).await?;
        Ok(asked.map(|mut answers| answers.pop().flatten().unwrap_or(unknown)))
    }
}

impl Repeatable for RecordProgress {
    fn outcome(answers: &Self::Output) -> Option<Outcome> {
        match answers.first()?.as_ref()? {
            ProgressAnswer::Renewed(lease) => Some(Outcome::Renewed {
                expires_at: lease.expires_at,
            }),
            ProgressAnswer::Verifying(_) => Some(Outcome::Verifying),
            ProgressAnswer::Stop { reason, lease } => Some(Outcome::Stop {
                reason: reason.clone(),
                expires_at: lease.expires_at,
            }),
            ProgressAnswer::Refused(refusal) => Outcome::of_refusal(*refusal),
        }
    }

    async fn again(&self, tx: &mut Tx, outcome: Outcome) -> Result<Self::Output, StoreError> {
        let answer = match outcome {
            Outcome::Renewed { expires_at } => {
                ProgressAnswer::Renewed(what_is_left(tx, expires_at).await?)
            }
            Outcome::Verifying => {
                let lease = what_is_left(tx, OffsetDateTime::UNIX_EPOCH).await?;
                ProgressAnswer::Verifying(lease)
            }
            Outcome::Stop { reason, expires_at } => {
                let lease = what_is_left(tx, expires_at).await?;
                ProgressAnswer::Stop { reason, lease }
            }
            refused => ProgressAnswer::Refused(refused.refusal()),
        };
        Ok(vec![Some(answer)])
    }
}
