//! Compares what a file says about itself with what was promised. Pure rules; decoding comes after.

use fencepost_domain::service::TranscodeParams;
use fencepost_domain::service::transcode::{Audio, VideoCodec};

use crate::size::output_size;
use crate::{Checked, Container, Probe, Rejection, VideoStream};

/// Sound is stored in blocks, so that an output may end a little later than its source.
pub(crate) const LENGTH_SLACK_SECONDS: f64 = 1.0;

/// What an output of `transcode.v1` has to be.
#[derive(Debug, Clone, Copy)]
pub struct Expectation<'a> {
    /// What the buyer asked for.
    pub params: &'a TranscodeParams,
    /// What the source was, if it is known here.
    pub source: Option<&'a Probe>,
    /// The longest output that was sold, in seconds.
    pub max_output_seconds: u32,
}

/// Whether `found` is what was promised, as far as can be told without decoding.
pub(crate) fn judge(found: &Probe, expectation: &Expectation<'_>) -> Result<Checked, Rejection> {
    let params = expectation.params;
    let wanted = match params.codec {
        VideoCodec::H264 | VideoCodec::Hevc => Container::Mp4,
        VideoCodec::Vp9 => Container::Webm,
        VideoCodec::Prores => Container::Mov,
    };
    if found.container != wanted {
        let (wanted, found) = (wanted.as_str(), found.container.as_str());
        return Err(Rejection::Container { wanted, found });
    }
    let video = judge_streams(found, expectation)?;
    judge_codecs(found, video, params)?;
    judge_size(video, expectation)?;
    if let (Some(wanted), Some(fps)) = (params.fps, video.fps)
        && (fps - wanted).abs() > wanted * 0.05
    {
        return Err(Rejection::FrameRate { wanted, found: fps });
    }
    Ok(Checked {
        container: found.container,
        codec: params.codec,
        size: video.displayed,
        fps: video.fps,
        duration_seconds: judge_duration(found, video, expectation)?,
        frames: 0,
        has_audio: found.main_audio().is_some(),
    })
}

fn judge_streams<'a>(
    found: &'a Probe,
    expectation: &Expectation<'_>,
) -> Result<&'a VideoStream, Rejection> {
    let wrong = |text: String| Err(Rejection::Streams(text));
    let [video] = found.video.as_slice() else {
        return wrong(format!(
            "{} video streams instead of one",
            found.video.len()
        ));
    };
    let audio = found.audio.len();
    let keeps = expectation.params.audio == Audio::Keep;
    let wanted = match expectation.source {
        Some(source) => {
            let wanted = usize::from(keeps && source.main_audio().is_some());
            wanted..=wanted
        }
        None => 0..=usize::from(keeps),
    };
    if !wanted.contains(&audio) {
        return wrong(format!("{audio} audio streams instead of {}", wanted.end()));
    }
    if found.streams != 1 + audio {
        return wrong(format!(
            "{} streams instead of {}",
            found.streams,
            1 + audio
        ));
    }
    Ok(video)
}

fn judge_codecs(
    found: &Probe,
    video: &VideoStream,
    params: &TranscodeParams,
) -> Result<(), Rejection> {
    let (sound, pixels) = match params.codec {
        VideoCodec::H264 | VideoCodec::Hevc => ("aac", "yuv420p"),
        VideoCodec::Vp9 => ("opus", "yuv420p"),
        VideoCodec::Prores => ("aac", "yuv422p10le"),
    };
    let same = |what, wanted, found: &str| {
        if wanted == found {
            Ok(())
        } else {
            Err(Rejection::Codec {
                what,
                wanted,
                found: found.to_owned(),
            })
        }
    };
    same("video codec", params.codec.as_str(), &video.codec)?;
    same("pixel format", pixels, &video.pixel_format)?;
    found
        .main_audio()
        .map_or(Ok(()), |audio| same("audio codec", sound, &audio.codec))
}

fn judge_size(video: &VideoStream, expectation: &Expectation<'_>) -> Result<(), Rejection> {
    let params = expectation.params;
    let found = video.displayed;
    let by_source = expectation
        .source
        .and_then(Probe::main_video)
        .and_then(|source| output_size(params, source).ok());
    let fits = match by_source {
        Some(size) => size == found,
        None => {
            params.width.is_none_or(|width| width == found.width)
                && params.height.is_none_or(|height| height == found.height)
        }
    };
    // The promise is upright square pixels, so that every player agrees on the size.
    if fits && video.rotation == 0 && video.square_pixels && found == video.stored {
        return Ok(());
    }
    let side = |asked: Option<u32>| asked.map_or_else(|| "any".to_owned(), |n| n.to_string());
    let wanted = by_source.map_or_else(
        || format!("{}x{}", side(params.width), side(params.height)),
        |size| size.to_string(),
    );
    Err(Rejection::PictureSize { wanted, found })
}

fn judge_duration(
    found: &Probe,
    video: &VideoStream,
    expectation: &Expectation<'_>,
) -> Result<f64, Rejection> {
    let stated = found.duration_seconds.filter(|&seconds| seconds > 0.0);
    let length = stated.ok_or_else(|| Rejection::NotMedia("it has no length".to_owned()))?;
    let most = expectation.max_output_seconds;
    if length > f64::from(most) + LENGTH_SLACK_SECONDS {
        return Err(Rejection::TooLong {
            most,
            found: length,
        });
    }
    let with_audio = expectation.params.audio == Audio::Keep;
    let source = expectation
        .source
        .filter(|source| source.container.states_duration());
    if let Some(source) = source
        && let Some(wanted) = source.expected_seconds(with_audio)
    {
        let rates = [video.fps, source.main_video().and_then(|video| video.fps)];
        if (length - wanted).abs() > tolerance(wanted, &rates) {
            return Err(Rejection::Duration {
                wanted,
                found: length,
            });
        }
    }
    Ok(length)
}

/// Half a second or half a percent, and two frames at the slowest rate involved.
pub(crate) fn tolerance(seconds: f64, rates: &[Option<f64>]) -> f64 {
    let slowest = rates
        .iter()
        .flatten()
        .fold(f64::INFINITY, |slow, &rate| slow.min(rate));
    (seconds * 0.005).max(0.5) + 2.0 / slowest.max(0.1)
}
