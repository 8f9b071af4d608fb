//! The proof that an attempt's end is durable.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId};
use fencepost_domain::job::JobStatus;

/// What is known of an attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) attempt: AttemptId,
    pub(crate) job: JobId,
    pub(crate) device: DeviceId,
    pub(crate) status: AttemptStatus,
    pub(crate) code: Option<FailureCode>,
    pub(crate) message: Option<String>,
    pub(crate) job_status: JobStatus,
}

/// An attempt whose end is durable: its fields are private, so that nobody but the store, after
/// COMMIT returned or by reading a terminal row, can claim it. A slot is released only for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalizedAttempt(Ended);

impl FinalizedAttempt {
    /// To be called with what a transaction returned, after its COMMIT.
    pub(crate) fn after_commit(ended: Ended) -> Self {
        Self(ended)
    }

    /// The attempt.
    pub fn attempt(&self) -> AttemptId {
        self.0.attempt
    }

    /// Its job.
    pub fn job(&self) -> JobId {
        self.0.job
    }

    /// The device whose slot is free now.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }

    /// How it ended.
    pub fn status(&self) -> AttemptStatus {
        self.0.status
    }

    /// Why it did not win.
    pub fn code(&self) -> Option<FailureCode> {
        self.0.code
    }

    /// Why it did not win, for a person.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// What became of the job.
    pub fn job_status(&self) -> JobStatus {
        self.0.job_status
    }
}
