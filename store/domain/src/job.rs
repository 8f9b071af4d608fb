//! The states of a job and the only arrows between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a job stands. Labels equal those of the Postgres enum `job_status`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Waits for a device.
    Queued,
    /// One attempt is live on a device.
    Active,
    /// A commit was accepted; the control plane checks the bytes.
    Verifying,
    /// The buyer cancelled; the live attempt has not ended yet. Cannot become succeeded.
    Cancelling,
    /// Ended with one verified output.
    Succeeded,
    /// Ended without an output.
    Failed,
    /// Ended because the buyer said so.
    Cancelled,
}

impl JobStatus {
    /// Every status, in the order of the Postgres enum.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Active,
        Self::Verifying,
        Self::Cancelling,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The label in Postgres and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Active => "active",
            Self::Verifying => "verifying",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads a label.
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == label)
    }

    /// Whether nothing can happen to the job any more.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Active | Self::Verifying | Self::Cancelling => false,
        }
    }

    /// Whether the arrow `self → next` exists.
    ///
    /// There is no wildcard on the left side: a new status does not compile until its arrows are
    /// written here. The database holds the same table in a trigger.
    pub fn can_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Active | Self::Cancelled | Self::Failed),
            Self::Active => {
                matches!(
                    next,
                    Self::Queued | Self::Verifying | Self::Cancelling | Self::Failed
                )
            }
            Self::Verifying => {
                matches!(
                    next,
                    Self::Succeeded | Self::Queued | Self::Cancelling | Self::Failed
                )
            }
            Self::Cancelling => next == Self::Cancelled,
            Self::Succeeded | Self::Failed | Self::Cancelled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelling_can_only_become_cancelled() {
        for next in JobStatus::ALL {
            let expected = next == JobStatus::Cancelled;
            assert_eq!(JobStatus::Cancelling.can_become(next), expected, "{next:?}");
        }
    }

    #[test]
    fn a_terminal_job_has_no_way_out() {
        for from in JobStatus::ALL
            .into_iter()
            .filter(|status| status.is_terminal())
        {
            assert!(
                JobStatus::ALL
                    .into_iter()
                    .all(|next| !from.can_become(next))
            );
        }
    }

    #[test]
    fn labels_are_read_back() {
        for status in JobStatus::ALL {
            assert_eq!(JobStatus::parse(status.as_str()), Some(status));
        }
    }
}
