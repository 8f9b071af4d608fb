//! What a media check can say.

use crate::{Container, FailureCode, MediaFailure, Size};

/// An output that is what was promised.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Its container; none of a list.
    pub container: Option<Container>,
    /// Size of its picture as shown, if it has one.
    pub size: Option<Size>,
    /// Average frames per second.
    pub fps: Option<f64>,
    /// Its length in seconds: what is decoded, not only what is stated.
    pub duration_seconds: f64,
    /// Frames that were decoded.
    pub frames: u64,
    /// Whether it has sound.
    pub has_audio: bool,
}

/// Why an output is not what was promised.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// No bytes.
    #[error("the file is empty")]
    Empty,
    /// Not a media file, or one that cannot be read.
    #[error("the file is no readable media file: {0}")]
    NotMedia(String),
    /// Not a list of compositions.
    #[error("the file is no list of compositions: {0}")]
    NotCompositions(String),
    /// Another container.
    #[error("the container is {found}, not {wanted}")]
    Container {
        /// What it should be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// Streams missing or too many.
    #[error("the streams are not those promised: {0}")]
    Streams(String),
    /// Another codec or pixel format.
    #[error("the {what} is {found}, not {wanted}")]
    Codec {
        /// Which property.
        what: &'static str,
        /// What it should be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
    /// Another picture size.
    #[error("the picture is {found}, not {wanted}")]
    PictureSize {
        /// What it should be, `any` where nothing was asked.
        wanted: String,
        /// What it is.
        found: Size,
    },
    /// Another frame rate than asked.
    #[error("the frame rate is {found:.3}, not {wanted}")]
    FrameRate {
        /// What was asked.
        wanted: f64,
        /// What it is.
        found: f64,
    },
    /// Its length does not fit its source, or what it says does not fit what is in it.
    #[error("the length is {found:.2} s, not {wanted:.2} s")]
    Duration {
        /// What it should be, in seconds.
        wanted: f64,
        /// What it is, in seconds.
        found: f64,
    },
    /// Longer than was sold.
    #[error("the output of {found:.2} s is longer than the {most} s allowed")]
    TooLong {
        /// What is allowed, in seconds.
        most: u32,
        /// What it is, in seconds.
        found: f64,
    },
    /// Cannot be decoded from beginning to end.
    #[error("the file cannot be decoded: {0}")]
    Undecodable(String),
}

/// How a check ended that did not pass.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CheckFailure {
    /// The file was looked at and is not what was promised. Its maker's fault.
    #[error("{0}")]
    Rejected(Rejection),
    /// The check could not be done: our own trouble, says nothing about the file.
    #[error("the check could not be done: {0}")]
    Trouble(String),
    /// We stopped it.
    #[error("stopped")]
    Stopped,
}

impl From<Rejection> for CheckFailure {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl CheckFailure {
    /// Trouble stays trouble; a fault of the file becomes a rejection.
    pub(crate) fn sort(failure: MediaFailure, reject: fn(String) -> Rejection) -> Self {
        match failure {
            MediaFailure::Stopped => Self::Stopped,
            MediaFailure::Failed {
                code: FailureCode::InputInvalid | FailureCode::RunnerFailed,
                message,
            } => Self::Rejected(reject(message)),
            MediaFailure::Failed { message, .. } => Self::Trouble(message),
        }
    }
}
