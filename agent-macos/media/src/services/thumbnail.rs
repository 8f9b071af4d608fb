//! `thumbnail.v1`: one picture out of a video.
//!
//! FFmpeg seeks to a frame at or after a time, but what is asked for is the frame that is shown
//! then, which may have begun long before. Nothing tells a frame to be the last one before a time
//! until the next one is seen, so a source is read twice: once to count the frames up to the time,
//! once to take the last of them.

mod line;
mod reading;

use fencepost_domain::service::ThumbnailParams;
use fencepost_domain::service::thumbnail::PictureFormat;

use self::line::Choice;
use self::reading::{Reading, cut_before, past_the_end};
use super::measure::Stream;
use super::video_of;
use crate::judge::{PicturePromise, Promise, tolerance};
use crate::probe::ends_after;
use crate::progress::{Meter, Stage};
use crate::size::{SizeWish, output_size};
use crate::work::{Made, Task, invalid};
use crate::{FailureCode, MediaFailure, Probe, Size, Sources};

/// Probes the source and takes a picture out of it.
pub(super) async fn make(task: &Task<'_>, params: &ThumbnailParams) -> Result<Made, MediaFailure> {
    let source = task.probe("source").await?;
    let still = Still::new(&source, params, task.bench.tools.tone_maps)?;
    match params.at_seconds {
        Some(at) => still.write_moment(task, at).await?,
        None => still.write_typical(task).await?,
    }
    if !is_written(task).await {
        return Err(invalid("no picture of the source can be decoded"));
    }
    Ok(Made {
        sources: Sources::from([("source".to_owned(), source)]),
        encoder: None,
        copied: false,
    })
}

/// What the output has to be; without its source less is known.
pub(super) fn promise(params: &ThumbnailParams, sources: &Sources) -> Promise {
    let video = sources.get("source").and_then(Probe::main_video);
    let size = video.and_then(|video| output_size(wish(params), video).ok());
    Promise::Picture(PicturePromise {
        format: params.format,
        width: size.map_or(params.width, |size| Some(size.width)),
        height: size.map_or(params.height, |size| Some(size.height)),
    })
}

fn wish(params: &ThumbnailParams) -> SizeWish {
    SizeWish::any(params.width, params.height)
}

async fn is_written(task: &Task<'_>) -> bool {
    let written = tokio::fs::metadata(task.output).await;
    written.is_ok_and(|file| file.len() > 0)
}

/// Everything decided about the picture before FFmpeg starts.
struct Still<'a> {
    source: &'a Probe,
    /// Number of the video stream.
    video: u32,
    fps: Option<f64>,
    size: Size,
    /// Transfer characteristic of an HDR source that is to become an ordinary picture.
    tone_map_from: Option<&'a str>,
    format: PictureFormat,
}

impl<'a> Still<'a> {
    fn new(
        source: &'a Probe,
        params: &ThumbnailParams,
        tone_maps: bool,
    ) -> Result<Self, MediaFailure> {
        let video = video_of(source, "source")?;
        let maps = tone_maps && video.is_hdr();
        Ok(Self {
            source,
            video: video.index,
            fps: video.fps,
            size: output_size(wish(params), video)?,
            tone_map_from: maps.then_some(video.transfer.as_str()),
            format: params.format,
        })
    }

    /// Writes the frame that is shown at a time.
    async fn write_moment(&self, task: &Task<'_>, at: f64) -> Result<(), MediaFailure> {
        let mut reading = Reading::up_to(at, self.source)?;
        let (mut frames, mut end) = self.count(task, reading).await?;
        if frames == 0 && reading.from.is_some() {
            reading = Reading::from_the_start(at);
            (frames, end) = self.count(task, reading).await?;
        }
        self.require_shown(task, (at, reading), end).await?;
        let choice = Choice::Number(frames.saturating_sub(1));
        self.write(task, reading.from, choice, reading.until).await
    }

    /// Refuses a time at which nothing is shown, where the last frame found before it ended at
    /// `end`, in seconds from where reading began. A frame may stand for long, but only where the
    /// file has it so: a cut one still says how long it was.
    async fn require_shown(
        &self,
        task: &Task<'_>,
        (at, reading): (f64, Reading),
        end: f64,
    ) -> Result<(), MediaFailure> {
        let said = self.source.duration_seconds;
        let is_past = end + tolerance(end, &[self.fps]) < at && said.is_none_or(|said| said < at);
        if reading.from.is_none() && is_past {
            return Err(past_the_end(at, end));
        }
        let usual = 2.0 / self.fps.unwrap_or(10.0).max(0.1);
        let last = reading.from.unwrap_or(0.0) + end;
        let Some(stated) = Stream::picture("source", self.source)?.believed() else {
            return Ok(());
        };
        if last + usual >= at {
            return Ok(());
        }
        let file = (task.file("source")?, self.source.container);
        match ends_after(task.bench, file, self.video, last).await? {
            Some(found) if found + usual < at.min(stated) => {
                Err(cut_before(at, found, stated).about("source"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes a frame of what comes after the first tenth, or of all if nothing does.
    async fn write_typical(&self, task: &Task<'_>) -> Result<(), MediaFailure> {
        let length = self.source.expected_seconds(false);
        let Some(from) = length.map(|length| length / 10.0) else {
            return self.write(task, None, Choice::Typical, 0.0).await;
        };
        let written = self.write(task, Some(from), Choice::Typical, 0.0).await;
        match written.as_ref().map_err(MediaFailure::code) {
            Ok(()) if is_written(task).await => Ok(()),
            // A guess of the length may lead past the end.
            Ok(()) | Err(Some(FailureCode::InputInvalid | FailureCode::RunnerFailed)) => {
                self.write(task, None, Choice::Typical, 0.0).await
            }
            Err(_) => written,
        }
    }

    /// How many frames there are in a part of the source, and when the last of them ends.
    async fn count(&self, task: &Task<'_>, reading: Reading) -> Result<(u64, f64), MediaFailure> {
        let args = self.counting(task.file("source")?, reading);
        let mut meter = Meter::new(Stage::Encoding, Some(reading.until), task.on_progress);
        task.ffmpeg("finding the frame", args, &mut meter).await?;
        Ok((meter.frames, meter.media_seconds))
    }

    async fn write(
        &self,
        task: &Task<'_>,
        from: Option<f64>,
        choice: Choice,
        expected: f64,
    ) -> Result<(), MediaFailure> {
        let args = self.taking(task.file("source")?, task.output, from, choice);
        let mut meter = Meter::new(Stage::Encoding, Some(expected), task.on_progress);
        let done = task.ffmpeg("taking the picture", args, &mut meter).await;
        done.map(drop)
    }
}

#[cfg(test)]
#[path = "thumbnail_tests.rs"]
mod tests;
