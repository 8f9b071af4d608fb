//! What is promised of sound.

use super::{Length, judge_container, judge_length, same};
use crate::{Checked, Container, Probe, Rejection};

/// One track of sound, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoundPromise {
    /// Its container.
    pub container: Container,
    /// Its codec.
    pub codec: &'static str,
    /// Its channels.
    pub channels: u32,
    /// How long it is, if that is known.
    pub length: Option<Length>,
}

/// Whether `found` is such a sound.
pub(super) fn judge(
    found: &Probe,
    promise: &SoundPromise,
    most: u32,
) -> Result<Checked, Rejection> {
    judge_container(promise.container, found.container)?;
    let ([audio], 1) = (found.audio.as_slice(), found.streams) else {
        let (streams, audio) = (found.streams, found.audio.len());
        return Err(Rejection::Streams(format!(
            "{streams} streams, {audio} of them audio, instead of one audio stream"
        )));
    };
    same("audio codec", promise.codec, &audio.codec)?;
    if audio.channels != promise.channels {
        let (found, wanted) = (audio.channels, promise.channels);
        return Err(Rejection::Streams(format!(
            "{found} channels of sound instead of {wanted}"
        )));
    }
    Ok(Checked {
        container: Some(found.container),
        size: None,
        fps: None,
        duration_seconds: judge_length(found, promise.length, (None, most))?,
        frames: 0,
        has_audio: true,
    })
}
