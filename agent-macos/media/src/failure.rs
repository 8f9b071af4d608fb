//! Why a piece of media work did not succeed, in the words of the contract.
//!
//! Of its codes these occur here: `input_invalid` (the source cannot be used, trying again cannot
//! help), `runner_failed` (FFmpeg refused or crashed although the source looked right), `stalled`,
//! `runtime_exceeded`, `device_fault` (this machine: no FFmpeg, full disk, no memory, killed from
//! outside) and `internal_error` (our own defect).

use std::path::Path;

use fencepost_domain::failure::FailureCode;

use crate::clean::clean;

/// How media work ended when it has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaFailure {
    /// We stopped it ourselves. Never reported as a failure, whatever FFmpeg's exit status was.
    #[error("stopped")]
    Stopped,
    /// It failed.
    #[error("{}: {message}", code.as_str())]
    Failed {
        /// What kind of failure.
        code: FailureCode,
        /// For a person: bounded, valid UTF-8, no NUL, no path outside the work folder.
        message: String,
    },
}

impl MediaFailure {
    /// A failure with a text of our own.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self::Failed {
            code,
            message: message.into(),
        }
    }

    /// A failure with a text of our own followed by what a foreign program said, cleaned.
    pub fn quoting(code: FailureCode, what: &str, said: &str, folder: &Path) -> Self {
        let said = clean(said, folder);
        let message = if said.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {said}")
        };
        Self::Failed { code, message }
    }

    /// The same, saying which input it is about.
    pub(crate) fn about(self, input: &str) -> Self {
        match self {
            Self::Stopped => Self::Stopped,
            Self::Failed { code, message } => Self::Failed {
                code,
                message: format!("input {input}: {message}"),
            },
        }
    }

    /// An operating system error while doing `what`.
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        Self::new(FailureCode::DeviceFault, format!("{what}: {error}"))
    }

    /// What went wrong, for a person who is not asking for the code.
    pub fn message(&self) -> &str {
        match self {
            Self::Stopped => "stopped",
            Self::Failed { message, .. } => message,
        }
    }

    /// The code, or nothing if we stopped the work ourselves.
    pub fn code(&self) -> Option<FailureCode> {
        match self {
            Self::Stopped => None,
            Self::Failed { code, .. } => Some(*code),
        }
    }
}
