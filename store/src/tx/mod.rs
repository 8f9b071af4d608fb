//! One file per transaction; see the crate's page for the rules they obey.

mod finish;
mod once;
mod replay;

pub mod accept_clock;
pub mod begin_gateway;
pub mod begin_session;
pub mod begin_verification;
pub mod cancel_job;
pub mod claim_lease;
pub mod collect_garbage;
pub mod collect_uploads;
pub mod complete_upload;
pub mod delete_files;
pub mod delete_job;
pub mod delete_upload;
pub mod disable_device;
pub mod end_by_agent;
pub mod end_sessions;
pub mod expire_due;
pub mod forget_requests;
pub mod grant_objects;
pub mod grant_parts;
pub mod hand_off;
pub mod keep_mark;
pub mod keep_watch;
pub mod lease_round;
mod note_key_use;
pub mod pair_device;
pub mod place_output;
pub mod prune_jobs;
pub mod prune_keys;
pub mod pull_back;
pub mod quote_job;
pub mod reap_workspaces;
pub mod record_progress;
pub mod renew_verifications;
pub mod retire_uploads;
pub mod return_offers;
pub mod revoke;
pub mod settle_commit;
pub mod submit_job;
pub mod tend_queue;
pub mod webhooks;
pub mod write_artifacts;
pub mod write_events;

use std::collections::HashSet;

use fencepost_domain::fencing::{FenceViolation, Operation};
use fencepost_domain::ids::AttemptId;
use sha2::{Digest as _, Sha256};

use crate::error::StoreError;
use crate::run::{Store, Transaction};

pub use once::{Asked, RequestKey};

/// Why a claim was refused. The wire is told less than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such attempt.
    #[error("there is no such attempt")]
    UnknownAttempt,
    /// The fence refused.
    #[error("{0}")]
    Fence(FenceViolation),
    /// Something else is stored under this lease already.
    #[error("another request of this lease is stored already")]
    OtherContent,
    /// The object was never granted to this attempt.
    #[error("the object key was not granted to this attempt")]
    UngrantedObject,
    /// The lease is good, but its job is being cancelled.
    #[error("the job is not active")]
    JobNotActive,
    /// The attempt has as many objects as it may have.
    #[error("the attempt may write no more objects")]
    TooManyObjects,
    /// The very same request was refused before, for whatever reason.
    #[error("the same request was refused before")]
    RefusedBefore,
    /// The renewal would not extend the lease, which stands.
    #[error("the renewal would not extend the lease")]
    NotExtending,
    /// The job's buyer cancelled; the attempt has ended.
    #[error("the job is cancelled")]
    BuyerCancelled,
}

impl Refusal {
    /// The violation to map to the wire; everything that is not one is a stranger's question.
    pub fn violation(self) -> FenceViolation {
        match self {
            Self::Fence(violation) => violation,
            Self::UnknownAttempt
            | Self::OtherContent
            | Self::UngrantedObject
            | Self::JobNotActive
            | Self::TooManyObjects
            | Self::RefusedBefore
            | Self::NotExtending
            | Self::BuyerCancelled => FenceViolation::ForeignDevice,
        }
    }
}

/// Runs a transaction on a list so that no attempt is in it twice: whatever is asked about an attempt
/// a second time is asked in a transaction after the first one's. Answers come in the list's order.
async fn in_turns<T, A, X>(
    store: &Store,
    items: Vec<T>,
    attempt: impl Fn(&T) -> AttemptId,
    transaction: impl Fn(Vec<T>) -> X,
) -> Result<Vec<A>, StoreError>
where
    A: Send + 'static,
    X: Transaction<Output = Vec<A>>,
{
    let mut answers: Vec<Option<A>> = items.iter().map(|_| None).collect();
    let mut left: Vec<(usize, T)> = items.into_iter().enumerate().collect();
    while !left.is_empty() {
        let mut seen = HashSet::new();
        let (turn, later): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|(_, item)| seen.insert(attempt(item)));
        let (positions, turn): (Vec<_>, Vec<_>) = turn.into_iter().unzip();
        let answered = store.execute(transaction(turn)).await?;
        for (position, answer) in positions.into_iter().zip(answered) {
            answers[position] = Some(answer);
        }
        left = later;
    }
    Ok(answers.into_iter().flatten().collect())
}

/// SHA-256 of what a request means, to tell an identical repeat from another request.
fn content_digest(operation: Operation, parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = Sha256::new();
    hasher.update(format!("{operation:?}"));
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_vec()
}
