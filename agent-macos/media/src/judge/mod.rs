//! Compares what a file says about itself with what was promised. Pure rules; decoding comes after.

pub(crate) mod compositions;
mod picture;
mod sound;
mod video;

use fencepost_domain::service::transcode::VideoCodec;

use crate::services::LENGTH_SLACK_SECONDS;
use crate::{Checked, Container, Probe, Rejection};
pub use picture::PicturePromise;
pub use sound::SoundPromise;
pub use video::VideoPromise;

/// Codecs with the pixel format that each may have.
pub type Pictures = &'static [(VideoCodec, &'static str)];

/// What an output has to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// What is promised of its kind.
    pub promise: Promise,
    /// The longest output that was sold, in seconds.
    pub max_output_seconds: u32,
}

/// What is promised of an output, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Promise {
    /// A moving picture, perhaps with sound and captions.
    Video(VideoPromise),
    /// Sound alone.
    Sound(SoundPromise),
    /// One still picture.
    Picture(PicturePromise),
    /// A list of compositions, as JSON.
    Compositions,
}

/// How long an output has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// In seconds.
    pub seconds: f64,
    /// The source's frames per second: no length can be more exact than a frame.
    pub fps: Option<f64>,
}

impl Length {
    /// As long as this source, if it can be believed.
    pub(crate) fn like(source: &Probe, with_audio: bool) -> Option<Self> {
        let seconds = source.expected_seconds(with_audio);
        Some(Self {
            seconds: seconds.filter(|_| source.container.states_duration())?,
            fps: source.main_video().and_then(|video| video.fps),
        })
    }
}

/// Whether `found` is what was promised, as far as can be told without decoding.
pub(crate) fn judge(found: &Probe, expectation: &Expectation) -> Result<Checked, Rejection> {
    match &expectation.promise {
        Promise::Video(promise) => video::judge(found, promise, expectation.max_output_seconds),
        Promise::Sound(promise) => sound::judge(found, promise, expectation.max_output_seconds),
        Promise::Picture(promise) => picture::judge(found, promise),
        Promise::Compositions => Err(Rejection::NotCompositions("it is a media file".to_owned())),
    }
}

fn judge_container(wanted: Container, found: Container) -> Result<(), Rejection> {
    if found == wanted {
        return Ok(());
    }
    let (wanted, found) = (wanted.as_str(), found.as_str());
    Err(Rejection::Container { wanted, found })
}

fn same(what: &'static str, wanted: &'static str, found: &str) -> Result<(), Rejection> {
    if wanted == found {
        return Ok(());
    }
    Err(Rejection::Codec {
        what,
        wanted,
        found: found.to_owned(),
    })
}

/// The length that a file states, if it is one that was sold and the one that was promised.
fn judge_length(
    found: &Probe,
    wanted: Option<Length>,
    (fps, most): (Option<f64>, u32),
) -> Result<f64, Rejection> {
    let stated = found.duration_seconds.filter(|&seconds| seconds > 0.0);
    let length = stated.ok_or_else(|| Rejection::NotMedia("it has no length".to_owned()))?;
    if length > f64::from(most) + LENGTH_SLACK_SECONDS {
        return Err(Rejection::TooLong {
            most,
            found: length,
        });
    }
    match wanted {
        Some(wanted)
            if (length - wanted.seconds).abs() > tolerance(wanted.seconds, &[fps, wanted.fps]) =>
        {
            Err(Rejection::Duration {
                wanted: wanted.seconds,
                found: length,
            })
        }
        Some(_) | None => Ok(length),
    }
}

/// Half a second or half a percent, and two frames at the slowest rate involved.
pub(crate) fn tolerance(seconds: f64, rates: &[Option<f64>]) -> f64 {
    let slowest = rates
        .iter()
        .flatten()
        .fold(f64::INFINITY, |slow, &rate| slow.min(rate));
    (seconds * 0.005).max(0.5) + 2.0 / slowest.max(0.1)
}
