//! `thumbnail.v1`: one picture out of a video.
//!
//! FFmpeg seeks to a frame at or after a time, but what is asked for is the frame that is shown
//! then, which may have begun long before. Nothing tells a frame to be the last one before a time
//! until the next one is seen, so a source is read twice: once to count the frames up to the time,
//! once to take the last of them.

use std::path::Path;

use fencepost_domain::service::ThumbnailParams;
use fencepost_domain::service::thumbnail::PictureFormat;

use super::video_of;
use crate::args::Args;
use crate::judge::{PicturePromise, Promise, tolerance};
use crate::picture::tone_mapping;
use crate::probe::file_url;
use crate::progress::{Meter, Stage};
use crate::size::{SizeWish, output_size};
use crate::work::{Made, Task, invalid};
use crate::{FailureCode, MediaFailure, Probe, Size, Sources};

/// Reading begins so much before the time asked for, in seconds: a seek leads to the frame that
/// everything after it can be decoded from, and where that is stored is not where it is shown.
const LEAD: f64 = 5.0;
/// A frame that begins so much after a time is the one meant: 0.0333 is the second of 30.
const SLACK: f64 = 0.000_5;

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

/// Which part of a source is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reading {
    /// Where it begins, in seconds from the beginning of the source; none at the beginning itself.
    from: Option<f64>,
    /// Where it ends, in seconds from where it begins.
    until: f64,
}

/// Which of the frames that are read becomes the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The one of this number, counted from 0.
    Number(u64),
    /// One that resembles the others.
    Typical,
}

impl Reading {
    /// Up to the frame that is shown `at` so many seconds. A time past the end is `input_invalid`.
    ///
    /// Where nothing says when frames are shown but the frames themselves, all of them are read.
    fn up_to(at: f64, source: &Probe) -> Result<Self, MediaFailure> {
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

    fn from_the_start(at: f64) -> Self {
        Self {
            from: None,
            until: at + SLACK,
        }
    }
}

fn past_the_end(at: f64, length: f64) -> MediaFailure {
    invalid(format!(
        "at_seconds is {at}, and the video is {length:.2} s long: ask for an earlier time"
    ))
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
        let said = self.source.duration_seconds;
        let ended = end + tolerance(end, &[self.fps]) < at && said.is_none_or(|said| said < at);
        if reading.from.is_none() && ended {
            return Err(past_the_end(at, end));
        }
        let choice = Choice::Number(frames.saturating_sub(1));
        self.write(task, reading.from, choice, reading.until).await
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

    /// FFmpeg's arguments for reading from a time on; `roughly` from the frame on that has to be
    /// decoded for that, however long before it was shown.
    fn reading(&self, input: &Path, from: Option<f64>, roughly: bool) -> Args {
        let mut args = Args::followed();
        args.strict_about([self.source]);
        if let Some(from) = from {
            if roughly {
                args.words("-noaccurate_seek");
            }
            args.words("-ss").word(format!("{from:.6}"));
        }
        args.input(self.source.container, input);
        args
    }

    fn counting(&self, input: &Path, reading: Reading) -> Args {
        let mut args = self.reading(input, reading.from, true);
        args.map(0, self.video);
        args.word("-vf")
            .word(format!("trim=end={:.6}", reading.until));
        args.words("-fps_mode passthrough -f null -");
        args
    }

    fn taking(&self, input: &Path, output: &Path, from: Option<f64>, choice: Choice) -> Args {
        let mut args = self.reading(input, from, choice != Choice::Typical);
        if let Choice::Number(number) = choice {
            // Shows that work goes on while the frames before are decoded.
            args.map(0, self.video);
            args.words("-fps_mode passthrough -frames:v");
            args.word((number + 1).to_string()).words("-f null -");
        }
        args.map(0, self.video).nameless();
        args.word("-vf").word(self.filters(choice).join(","));
        args.words(match self.format {
            PictureFormat::Jpeg => "-c:v mjpeg -q:v 2",
            PictureFormat::Png => "-c:v png -pred mixed",
        });
        args.words("-fps_mode passthrough -frames:v 1 -f image2pipe");
        args.word(file_url(output));
        args
    }

    /// The filters between decoder and encoder. FFmpeg has turned the picture upright before.
    fn filters(&self, choice: Choice) -> Vec<String> {
        let Size { width, height } = self.size;
        let mut chain = vec![
            match choice {
                Choice::Number(number) => format!("select='eq(n,{number})'"),
                // Twelve times as much is looked at, and not much more is held in memory.
                Choice::Typical => "select='not(mod(n,12))'".to_owned(),
            },
            format!("scale={width}:{height}:flags=bicubic"),
        ];
        if let Some(transfer) = self.tone_map_from {
            // Not every size can have colours of half the size.
            chain.push("format=yuv444p10le".to_owned());
            chain.extend(tone_mapping(transfer));
        }
        if choice == Choice::Typical {
            chain.push("thumbnail=24".to_owned());
        }
        // Cameras write into frames too who they are and where.
        chain.push("metadata=mode=delete,sidedata=mode=delete".to_owned());
        chain.push(match self.format {
            // JPEG knows one matrix and the full range.
            PictureFormat::Jpeg => "scale=out_color_matrix=bt601:out_range=pc".to_owned(),
            PictureFormat::Png => "scale=flags=bicubic+full_chroma_int+accurate_rnd".to_owned(),
        });
        chain.push("setsar=1".to_owned());
        chain.push(match self.format {
            PictureFormat::Jpeg => "format=yuvj420p".to_owned(),
            PictureFormat::Png => "format=rgb24".to_owned(),
        });
        chain
    }
}

#[cfg(test)]
#[path = "thumbnail_tests.rs"]
mod tests;
