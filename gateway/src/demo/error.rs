//! Why a demo did not end with "ok".

use fencepost_embedded::EmbeddedError;
use fencepost_media::MediaFailure;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Something that the demo shows did not happen as Fencepost promises.
    #[error("not as promised: {0}")]
    Untrue(String),
    /// The demo itself could not go on.
    #[error("{0}")]
    Stuck(String),
    /// Ctrl-C, or a signal to stop.
    #[error("interrupted; everything that the demo had started is stopped and removed")]
    Interrupted,
    /// The gateway was not reached.
    #[error("the gateway was not reached: {0}")]
    Http(#[from] reqwest::Error),
    /// Our Postgres.
    #[error(transparent)]
    Postgres(#[from] EmbeddedError),
    /// FFmpeg.
    #[error("FFmpeg: {0}")]
    Media(#[from] MediaFailure),
    /// Files and processes.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl DemoError {
    pub(super) fn untrue(what: impl Into<String>) -> Self {
        Self::Untrue(what.into())
    }

    pub(super) fn stuck(what: impl Into<String>) -> Self {
        Self::Stuck(what.into())
    }
}

/// Checks one claim.
pub(super) fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), DemoError> {
    if holds {
        Ok(())
    } else {
        Err(DemoError::Untrue(otherwise()))
    }
}
