//! A job's own view of its lease.

use std::time::Duration;

use fencepost_media::StopSignal;
use tokio::sync::watch;

use crate::clock::{self, Moment};

const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Why a step of a job ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepError {
    /// Told to stop, or the lease has ended.
    Stopped,
    /// It failed.
    Failed {
        /// A failure code of the contract.
        code: &'static str,
        /// For a person.
        message: String,
    },
}

impl StepError {
    /// A failure.
    pub fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self::Failed {
            code,
            message: message.into(),
        }
    }

    /// This machine is at fault.
    pub(crate) fn device(what: &str, error: &std::io::Error) -> Self {
        Self::failed("device_fault", format!("{what}: {error}"))
    }
}

/// A job's view of its lease: it may not outlive it, and looks for itself, so that a stuck session
/// cannot make it go on.
#[derive(Debug, Clone)]
pub struct LeaseWatch {
    /// Cancelled when the job must stop.
    pub stop: StopSignal,
    /// When it has to begin to stop by itself.
    pub deadline: watch::Receiver<Moment>,
}

impl LeaseWatch {
    /// Whether work may go on at this very moment.
    pub fn check(&self) -> Result<(), StepError> {
        let over = self.stop.is_cancelled() || clock::now() >= *self.deadline.borrow();
        if over {
            Err(StepError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Waits until work may not go on.
    pub async fn ended(&self) {
        while self.check().is_ok() {
            tokio::select! {
                () = self.stop.cancelled() => {}
                // Looked at again and again: a timer would stand still while the machine sleeps.
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Runs a step to its end or to the end of the lease, whichever is first.
    pub async fn bound<T>(
        &self,
        step: impl Future<Output = Result<T, StepError>>,
    ) -> Result<T, StepError> {
        self.check()?;
        tokio::select! {
            biased;
            () = self.ended() => Err(StepError::Stopped),
            done = step => done,
        }
    }
}
