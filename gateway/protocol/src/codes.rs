//! The codes of refusals, and how little they say.
//!
//! A refused caller may be anybody who once held a lease. So the mapping from what we know (a
//! [`FenceViolation`]) to what we say (a [`Code`]) is reviewed as a disclosure: every violation of
//! the fence gives the one code of its operation. Only a holder to whom nothing but the clock stands
//! in the way is told so.

use fencepost_domain::fencing::{FenceViolation, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Progress, grant or accept by somebody who does not hold the lease.
    LeaseConflict,
    /// Commit, fail, release or retain by somebody who does not hold the lease, or other content than was
    /// stored.
    CommitConflict,
    /// An event or an artifact by somebody who does not hold the lease.
    RunLeaseConflict,
    /// Another event is stored under this id or number.
    RunEventConflict,
    /// Another artifact is stored under this name.
    RunArtifactConflict,
    /// The buyer cancelled.
    BuyerCancelled,
    /// The output is not what the service promises.
    VerificationFailed,
    /// The stored bytes are not the declared ones.
    UploadFailed,
    /// The lease was taken back: the Mac was switched off, or an operator did it.
    ProviderOffline,
    /// We could not check the output.
    InternalError,
    /// The output is being checked: ask again.
    Verifying,
    /// The clock is behind its own mark: ask again.
    ClockRegressed,
    /// Another request was made under the same id.
    RequestConflict,
    /// The message cannot be understood, or a value in it is wrong.
    InvalidRequest,
    /// The credential is not valid.
    Unauthorized,
    /// We are overloaded or our database is away: ask again.
    Busy,
    /// A code of a newer gateway.
    #[serde(other)]
    Unknown,
}

/// What to do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// Not yours: drop it.
    Stop,
    /// Our trouble: ask again.
    Retry,
    /// Your content is wrong.
    Fix,
}

impl Code {
    /// The one answer to any violation of the fence, whatever it was, but for a clock that cannot
    /// tell.
    pub fn for_violation(operation: Operation, violation: FenceViolation) -> Self {
        match (violation, operation) {
            (FenceViolation::ClockRegressed { .. }, _) => Self::ClockRegressed,
            (_, Operation::Progress | Operation::Grant) => Self::LeaseConflict,
            (_, Operation::Event | Operation::Artifact) => Self::RunLeaseConflict,
            (
                _,
                Operation::Commit
                | Operation::Fail
                | Operation::Release
                | Operation::Retain
                | Operation::GiveBack,
            ) => Self::CommitConflict,
        }
    }

    /// What goes with the code.
    pub fn disposition(self) -> Disposition {
        match self {
            Self::LeaseConflict
            | Self::CommitConflict
            | Self::RunLeaseConflict
            | Self::BuyerCancelled
            | Self::VerificationFailed
            | Self::UploadFailed
            | Self::ProviderOffline
            | Self::InternalError
            | Self::Unauthorized
            | Self::Unknown => Disposition::Stop,
            Self::Verifying | Self::ClockRegressed | Self::Busy => Disposition::Retry,
            Self::RunEventConflict
            | Self::RunArtifactConflict
            | Self::RequestConflict
            | Self::InvalidRequest => Disposition::Fix,
        }
    }

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeaseConflict => "lease_conflict",
            Self::CommitConflict => "commit_conflict",
            Self::RunLeaseConflict => "run_lease_conflict",
            Self::RunEventConflict => "run_event_conflict",
            Self::RunArtifactConflict => "run_artifact_conflict",
            Self::BuyerCancelled => "buyer_cancelled",
            Self::VerificationFailed => "verification_failed",
            Self::UploadFailed => "upload_failed",
            Self::ProviderOffline => "provider_offline",
            Self::InternalError => "internal_error",
            Self::Verifying => "verifying",
            Self::ClockRegressed => "clock_regressed",
            Self::RequestConflict => "request_conflict",
            Self::InvalidRequest => "invalid_request",
            Self::Unauthorized => "unauthorized",
            Self::Busy => "busy",
            Self::Unknown => "unknown",
        }
    }
}
