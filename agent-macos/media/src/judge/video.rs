//! What is promised of a film.

use std::ops::RangeInclusive;

use super::{Length, Pictures, judge_container, judge_length, same, tolerance};
use crate::{Checked, Container, Probe, Rejection, VideoStream};

/// A moving picture, perhaps with sound and captions.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoPromise {
    /// Its container.
    pub container: Container,
    /// What its picture may be.
    pub pictures: Pictures,
    /// Width of the picture, if it is known.
    pub width: Option<u32>,
    /// Height of the picture, if it is known.
    pub height: Option<u32>,
    /// Frames per second that were asked for.
    pub fps: Option<f64>,
    /// Codec of its sound.
    pub sound: &'static str,
    /// How many sound tracks it may have.
    pub sounds: RangeInclusive<usize>,
    /// How many caption tracks it may have.
    pub captions: RangeInclusive<usize>,
    /// How long it is, if that is known.
    pub length: Option<Length>,
    /// Whether its picture lasts as long as the film: sound alone may go on otherwise.
    pub lasting: bool,
}

/// Whether `found` is such a film.
pub(super) fn judge(
    found: &Probe,
    promise: &VideoPromise,
    most: u32,
) -> Result<Checked, Rejection> {
    judge_container(promise.container, found.container)?;
    let video = judge_streams(found, promise)?;
    judge_codecs(found, video, promise)?;
    judge_size(video, promise)?;
    if let (Some(wanted), Some(fps)) = (promise.fps, video.fps)
        && (fps - wanted).abs() > wanted * 0.05
    {
        return Err(Rejection::FrameRate { wanted, found: fps });
    }
    let duration_seconds = judge_length(found, promise.length, (video.fps, most))?;
    if promise.lasting
        && let Some(picture) = video.duration_seconds
        && (picture - duration_seconds).abs() > tolerance(duration_seconds, &[video.fps])
    {
        return Err(Rejection::Duration {
            wanted: duration_seconds,
            found: picture,
        });
    }
    Ok(Checked {
        container: Some(found.container),
        size: Some(video.displayed),
        fps: video.fps,
        duration_seconds,
        frames: 0,
        has_audio: found.main_audio().is_some(),
    })
}

fn judge_streams<'a>(
    found: &'a Probe,
    promise: &VideoPromise,
) -> Result<&'a VideoStream, Rejection> {
    let wrong = |text: String| Err(Rejection::Streams(text));
    let [video] = found.video.as_slice() else {
        return wrong(format!(
            "{} video streams instead of one",
            found.video.len()
        ));
    };
    let (audio, captions) = (found.audio.len(), found.captions.len());
    for (what, number, wanted) in [
        ("audio", audio, &promise.sounds),
        ("caption", captions, &promise.captions),
    ] {
        if !wanted.contains(&number) {
            let wanted = wanted.end();
            return wrong(format!("{number} {what} streams instead of {wanted}"));
        }
    }
    let known = 1 + audio + captions;
    if found.streams != known {
        return wrong(format!("{} streams instead of {known}", found.streams));
    }
    Ok(video)
}

fn judge_codecs(
    found: &Probe,
    video: &VideoStream,
    promise: &VideoPromise,
) -> Result<(), Rejection> {
    let known = promise
        .pictures
        .iter()
        .filter(|(codec, _)| codec.as_str() == video.codec);
    let formats: Vec<_> = known.map(|(_, format)| *format).collect();
    let usual = promise
        .pictures
        .first()
        .map_or("", |(codec, _)| codec.as_str());
    let Some(&format) = formats.first() else {
        return same("video codec", usual, &video.codec);
    };
    if !formats.contains(&video.pixel_format.as_str()) {
        same("pixel format", format, &video.pixel_format)?;
    }
    for audio in &found.audio {
        same("audio codec", promise.sound, &audio.codec)?;
    }
    for captions in &found.captions {
        same("caption codec", "mov_text", captions)?;
    }
    Ok(())
}

fn judge_size(video: &VideoStream, promise: &VideoPromise) -> Result<(), Rejection> {
    let found = video.displayed;
    let fits = promise.width.is_none_or(|width| width == found.width)
        && promise.height.is_none_or(|height| height == found.height);
    // The promise is upright square pixels, so that every player agrees on the size.
    if fits && video.rotation == 0 && video.square_pixels && found == video.stored {
        return Ok(());
    }
    Err(Rejection::PictureSize {
        wanted: wanted_size(promise.width, promise.height),
        found,
    })
}

/// A size of which perhaps not all is known.
pub(super) fn wanted_size(width: Option<u32>, height: Option<u32>) -> String {
    let side = |asked: Option<u32>| asked.map_or_else(|| "any".to_owned(), |n| n.to_string());
    format!("{}x{}", side(width), side(height))
}
