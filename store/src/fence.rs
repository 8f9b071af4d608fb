//! The fence applied to a locked row, and the same facts for the `WHERE` of the write.

use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::fencing::{
    AttemptFence, FenceViolation, LeaseClaim, Operation, check, check_identity,
};
use serde::Serialize;

/// Which halves of the fence are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FenceMode {
    /// The pure check and the `WHERE`.
    #[default]
    Both,
    /// The pure check is skipped, to show that the `WHERE` refuses alone.
    OnlyWhere,
    /// The `WHERE` is given the row's own facts, to show that the pure check refuses alone.
    OnlyPure,
}

/// The facts that a write repeats in its `WHERE`. Built from what was *presented*, so that they
/// refuse on their own.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WhereFacts {
    pub(crate) attempt_id: uuid::Uuid,
    pub(crate) job_id: uuid::Uuid,
    pub(crate) device_id: uuid::Uuid,
    pub(crate) epoch: i64,
    /// Hexadecimal; `None` where no token is needed.
    pub(crate) digest: Option<String>,
    /// Statuses in which the operation is allowed.
    pub(crate) from: Vec<&'static str>,
    /// The lease must end after the clock that was read under the lock.
    pub(crate) must_be_live: bool,
    /// The request id of a claim whose epoch nobody has presented, where it stands for the token.
    pub(crate) unpresented_claim: Option<uuid::Uuid>,
}

/// Judges a claim on a locked row. `Ok` holds the facts to repeat in the `WHERE`.
pub(crate) fn judge(
    mode: FenceMode,
    stored: &AttemptFence,
    claim: &LeaseClaim,
    token: Option<&CommitTokenDigest>,
    operation: Operation,
    clock: ClockReading,
) -> Result<WhereFacts, FenceViolation> {
    let presented = WhereFacts {
        attempt_id: claim.attempt.0,
        job_id: claim.job.0,
        device_id: claim.device.0,
        epoch: claim.epoch,
        digest: token.filter(|_| operation.needs_token()).map(hex_digest),
        from: statuses(operation),
        must_be_live: true,
        unpresented_claim: None,
    };
    match mode {
        FenceMode::Both => {
            check(stored, claim, token, operation, clock)?;
            Ok(presented)
        }
        FenceMode::OnlyWhere => Ok(presented),
        FenceMode::OnlyPure => {
            check(stored, claim, token, operation, clock)?;
            Ok(WhereFacts::of_row(stored))
        }
    }
}

/// The same for what needs no token and may come late: whose attempt it is, and the epoch.
pub(crate) fn judge_without_time(
    mode: FenceMode,
    stored: &AttemptFence,
    claim: &LeaseClaim,
) -> Result<WhereFacts, FenceViolation> {
    if mode != FenceMode::OnlyWhere {
        check_identity(stored, claim)?;
        if stored.epoch != claim.epoch {
            return Err(FenceViolation::StaleEpoch);
        }
    }
    let of_row = WhereFacts::of_row(stored);
    Ok(match mode {
        FenceMode::OnlyPure => of_row,
        FenceMode::Both | FenceMode::OnlyWhere => WhereFacts {
            job_id: claim.job.0,
            device_id: claim.device.0,
            epoch: claim.epoch,
            ..of_row
        },
    })
}

impl WhereFacts {
    /// The row's own facts: for ends that the control plane decides, where nobody presented any.
    pub(crate) fn of_row(stored: &AttemptFence) -> Self {
        Self {
            attempt_id: stored.attempt.0,
            job_id: stored.job.0,
            device_id: stored.device.0,
            epoch: stored.epoch,
            digest: None,
            from: vec![stored.status.as_str()],
            must_be_live: false,
            unpresented_claim: None,
        }
    }
}

fn statuses(operation: Operation) -> Vec<&'static str> {
    match operation {
        Operation::Commit => vec!["uploading"],
        Operation::Retain => vec!["succeeded", "failed", "lost", "cancelled"],
        Operation::Progress
        | Operation::Grant
        | Operation::Event
        | Operation::Artifact
        | Operation::Fail
        | Operation::Release
        | Operation::GiveBack => {
            vec!["leased", "downloading", "running", "uploading"]
        }
    }
}

/// A digest as it is given to SQL inside JSON.
pub(crate) fn hex_digest(digest: &CommitTokenDigest) -> String {
    hex::encode(digest.as_bytes())
}
