//! Which part of a source is decoded to find the frame that is shown at a time.

use crate::work::invalid;
use crate::{MediaFailure, Probe};

/// Reading begins so much before the time asked for, in seconds: a seek leads to the frame that
/// everything after it can be decoded from, and where that is stored is not where it is shown.
const LEAD: f64 = 5.0;
/// A frame that begins so much after a time is the one meant: 0.0333 is the second of 30.
const SLACK: f64 = 0.000_5;

/// Which part of a source is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// Where it begins, in seconds from the beginning of the source; none at the beginning itself.
    pub(super) from: Option<f64>,
    /// Where it ends, in seconds from where it begins.
    pub(super) until: f64,
}

impl Reading {
    /// Up to the frame that is shown `at` so many seconds. A time past the end is `input_invalid`.
    ///
    /// Where nothing says when frames are shown but the frames themselves, all of them are read.
    pub(super) fn up_to(at: f64, source: &Probe) -> Result<Self, MediaFailure> {
        // Where the sound goes on, the last frame stands.
        let length = source.duration_seconds;
        match length.filter(|_| source.container.states_duration()) {
            Some(length) if at > length + SLACK => Err(past_the_end(at, length)),
            Some(_) if at > LEAD => Ok(Self {
                from: Some(at - LEAD),
                until: LEAD + SLACK,
            }),
            Some(_) | None => Ok(Self::from_the_start(at)),
        }
    }

    pub(super) fn from_the_start(at: f64) -> Self {
        Self {
            from: None,
            until: at + SLACK,
        }
    }
}

pub(super) fn past_the_end(at: f64, length: f64) -> MediaFailure {
    invalid(format!(
        "at_seconds is {at}, and the video is {length:.2} s long: ask for an earlier time"
    ))
}

pub(super) fn cut_before(at: f64, found: f64, stated: f64) -> MediaFailure {
    invalid(format!(
        "at_seconds is {at}, and the picture ends at {found:.2} s, although it says {stated:.2} s: \
         send the whole file, or ask for an earlier time"
    ))
}
