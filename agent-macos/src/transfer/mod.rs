//! Moves bytes between the gateway's links and the workspace, for as long as the lease lives.

pub mod digest;
pub mod download;
pub mod upload;

use std::time::Duration;

use fencepost_media::StopSignal;
use tokio::sync::watch;

use crate::clock::{self, Moment};

const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Tries of one transfer.
pub(crate) const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

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
    /// Where the lease ends now.
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

/// What one try of a transfer came to.
pub(crate) enum TryError {
    /// Trying again may help.
    Again(String),
    /// It will not.
    Final(StepError),
}

/// Repeats a transfer a few times, with growing pauses.
pub(crate) async fn with_retries<T, F>(
    code: &'static str,
    mut transfer: impl FnMut() -> F,
) -> Result<T, StepError>
where
    F: Future<Output = Result<T, TryError>>,
{
    let mut pause = FIRST_PAUSE;
    for tries_left in (0..TRIES).rev() {
        match transfer().await {
            Ok(done) => return Ok(done),
            Err(TryError::Final(error)) => return Err(error),
            Err(TryError::Again(message)) if tries_left == 0 => {
                return Err(StepError::failed(code, message));
            }
            Err(TryError::Again(message)) => {
                tracing::warn!(message, tries_left, "a transfer failed; trying again");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
    }
    Err(StepError::failed(code, "the transfer was not tried"))
}

/// Whether the same request may succeed later.
pub(crate) fn is_passing(status: reqwest::StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}

/// An HTTP error without the address, which holds a signature.
pub(crate) fn without_address(error: reqwest::Error) -> String {
    crate::pairing::causes(&error.without_url())
}
