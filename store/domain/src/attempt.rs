//! The states of an attempt and the only arrows between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an attempt stands. Labels equal those of the Postgres enum `attempt_status`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// Handed to a device.
    Leased,
    /// The device fetches the inputs.
    Downloading,
    /// The device runs the service.
    Running,
    /// The device sends the output.
    Uploading,
    /// The commit was accepted: the attempt belongs to the control plane.
    Committing,
    /// Its output is the job's.
    Succeeded,
    /// It reported, or was found to have produced, a failure.
    Failed,
    /// Its lease ended before it did.
    Lost,
    /// Its job was cancelled.
    Cancelled,
}

impl AttemptStatus {
    /// Every status, in the order of the Postgres enum.
    pub const ALL: [Self; 9] = [
        Self::Leased,
        Self::Downloading,
        Self::Running,
        Self::Uploading,
        Self::Committing,
        Self::Succeeded,
        Self::Failed,
        Self::Lost,
        Self::Cancelled,
    ];

    /// The label in Postgres and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Downloading => "downloading",
            Self::Running => "running",
            Self::Uploading => "uploading",
            Self::Committing => "committing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads a label.
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == label)
    }

    /// Whether the attempt still takes a slot and blocks its job.
    pub fn is_live(self) -> bool {
        match self {
            Self::Leased
            | Self::Downloading
            | Self::Running
            | Self::Uploading
            | Self::Committing => true,
            Self::Succeeded | Self::Failed | Self::Lost | Self::Cancelled => false,
        }
    }

    /// Whether the agent, and not yet the control plane, holds the attempt.
    pub fn is_held_by_agent(self) -> bool {
        self.is_live() && self != Self::Committing
    }

    /// Whether the arrow `self → next` exists. Phases only move forward; a phase may be skipped.
    pub fn can_become(self, next: Self) -> bool {
        match self {
            Self::Leased | Self::Downloading | Self::Running => match next {
                Self::Downloading | Self::Running | Self::Uploading => next > self,
                Self::Failed | Self::Lost | Self::Cancelled => true,
                Self::Leased | Self::Committing | Self::Succeeded => false,
            },
            Self::Uploading => {
                matches!(
                    next,
                    Self::Committing | Self::Failed | Self::Lost | Self::Cancelled
                )
            }
            Self::Committing => {
                matches!(
                    next,
                    Self::Succeeded | Self::Failed | Self::Lost | Self::Cancelled
                )
            }
            Self::Succeeded | Self::Failed | Self::Lost | Self::Cancelled => false,
        }
    }
}

/// How far an agent says it is; the part of [`AttemptStatus`] that a progress frame may name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Has the offer, has not begun.
    Leased,
    /// Fetches the inputs.
    Downloading,
    /// Runs the service.
    Running,
    /// Sends the output.
    Uploading,
}

impl From<Phase> for AttemptStatus {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Leased => Self::Leased,
            Phase::Downloading => Self::Downloading,
            Phase::Running => Self::Running,
            Phase::Uploading => Self::Uploading,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_never_move_backward() {
        for from in AttemptStatus::ALL {
            for next in AttemptStatus::ALL.into_iter().filter(|next| *next <= from) {
                let from_committing = from == AttemptStatus::Committing;
                assert!(!from.can_become(next) || from_committing && !next.is_live());
            }
        }
    }

    #[test]
    fn only_uploading_leads_to_committing_and_only_committing_to_succeeded() {
        for from in AttemptStatus::ALL {
            let committing = from.can_become(AttemptStatus::Committing);
            assert_eq!(committing, from == AttemptStatus::Uploading);
            let succeeded = from.can_become(AttemptStatus::Succeeded);
            assert_eq!(succeeded, from == AttemptStatus::Committing);
        }
    }

    #[test]
    fn every_live_attempt_can_fail_be_lost_or_be_cancelled() {
        for from in AttemptStatus::ALL {
            for end in [
                AttemptStatus::Failed,
                AttemptStatus::Lost,
                AttemptStatus::Cancelled,
            ] {
                assert_eq!(from.can_become(end), from.is_live());
            }
        }
    }
}
