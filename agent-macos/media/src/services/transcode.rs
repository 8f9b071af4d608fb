//! `transcode.v1`: one video in, one video out.

use std::path::Path;

use fencepost_domain::service::TranscodeParams;
use fencepost_domain::service::transcode::{Audio, HEVC_LEAST, VideoCodec};

use super::{encode_somehow, require_affordable, video_of};
use crate::args::Args;
use crate::encoder::Quality;
use crate::judge::{Length, Pictures, Promise, VideoPromise};
use crate::picture::{Picture, steady_rate};
use crate::progress::{Meter, Stage};
use crate::size::{SizeWish, output_size};
use crate::work::{Made, Task, invalid};
use crate::{Container, Encoder, MediaFailure, Probe, Size, Sources, VideoStream};

/// Probes the source and encodes it.
pub(super) async fn make(task: &Task<'_>, params: &TranscodeParams) -> Result<Made, MediaFailure> {
    let source = task.probe("source").await?;
    write(task, params, source, None).await
}

/// Encodes a source, perhaps with captions of ours drawn into its picture.
pub(super) async fn write(
    task: &Task<'_>,
    params: &TranscodeParams,
    source: Probe,
    drawn: Option<&'static str>,
) -> Result<Made, MediaFailure> {
    let length = source.expected_seconds(params.audio == Audio::Keep);
    require_affordable(length, task.job.max_output_seconds)?;
    let chosen = choose(task, params)?;
    let encode = async |encoder| {
        let mut plan = Plan::new(&source, params, encoder, task.bench.tools.tone_maps)?;
        if drawn.is_some() {
            plan.draw(drawn);
        }
        let args = plan.arguments(task.file("source")?, task.output, task.stop_after_seconds());
        let mut meter = Meter::new(Stage::Encoding, length, task.on_progress);
        task.ffmpeg("encoding", args, &mut meter).await.map(drop)
    };
    let encoder = encode_somehow((chosen, params.hardware), encode).await?;
    Ok(Made {
        sources: Sources::from([("source".to_owned(), source)]),
        encoder: Some(encoder),
        copied: false,
    })
}

/// The encoder for what the buyer wishes, of those that this machine has proven.
pub(super) fn choose(task: &Task<'_>, params: &TranscodeParams) -> Result<Encoder, MediaFailure> {
    let proven = task.has_videotoolbox(params.codec);
    let has_scale = matches!(quality(params), Quality::Crf(_));
    Encoder::choose(params.codec, params.hardware, (has_scale, proven))
}

/// What the output has to be; without its source less is known.
pub(super) fn promise(params: &TranscodeParams, sources: &Sources) -> Promise {
    let promise = film(params);
    let Some(source) = sources.get("source") else {
        return Promise::Video(promise);
    };
    let with_audio = params.audio == Audio::Keep;
    let size = source
        .main_video()
        .and_then(|video| output_size(wish(params), video).ok());
    let sounds = usize::from(with_audio && source.main_audio().is_some());
    Promise::Video(VideoPromise {
        width: size.map_or(params.width, |size| Some(size.width)),
        height: size.map_or(params.height, |size| Some(size.height)),
        sounds: sounds..=sounds,
        length: Length::like(source, with_audio),
        ..promise
    })
}

/// What is promised of every film that is encoded like this, whatever it is made of.
pub(super) fn film(params: &TranscodeParams) -> VideoPromise {
    let (pictures, sound): (Pictures, _) = match params.codec {
        VideoCodec::H264 => (&[(VideoCodec::H264, "yuv420p")], "aac"),
        VideoCodec::Hevc => (&[(VideoCodec::Hevc, "yuv420p")], "aac"),
        VideoCodec::Vp9 => (&[(VideoCodec::Vp9, "yuv420p")], "opus"),
        VideoCodec::Prores => (&[(VideoCodec::Prores, "yuv422p10le")], "aac"),
    };
    VideoPromise {
        container: container(params.codec),
        pictures,
        width: params.width,
        height: params.height,
        fps: params.fps,
        sound,
        sounds: 0..=usize::from(params.audio == Audio::Keep),
        captions: 0..=0,
        length: None,
        lasting: false,
    }
}

pub(super) fn container(codec: VideoCodec) -> Container {
    match codec {
        VideoCodec::H264 | VideoCodec::Hevc => Container::Mp4,
        VideoCodec::Vp9 => Container::Webm,
        VideoCodec::Prores => Container::Mov,
    }
}

pub(super) fn wish(params: &TranscodeParams) -> SizeWish {
    SizeWish::even(params.width, params.height)
}

/// The size of the picture that a source becomes.
pub(super) fn size_of(params: &TranscodeParams, video: &VideoStream) -> Result<Size, MediaFailure> {
    let size = output_size(wish(params), video)?;
    if params.codec == VideoCodec::Hevc && size.width.min(size.height) < HEVC_LEAST {
        return Err(invalid(format!(
            "hevc needs at least {HEVC_LEAST}x{HEVC_LEAST}, and the picture would be {size}: ask \
             for a larger one, or another codec"
        )));
    }
    Ok(size)
}

pub(super) fn quality(params: &TranscodeParams) -> Quality {
    match (params.crf, params.bitrate_kbps) {
        (Some(crf), _) => Quality::Crf(crf),
        (None, Some(kbps)) => Quality::Kbps(kbps),
        (None, None) => Quality::Usual,
    }
}

/// Everything decided before FFmpeg starts.
struct Plan<'a> {
    source: &'a Probe,
    /// Number of the video stream to encode.
    video: u32,
    /// Number and channels of the audio stream to encode.
    audio: Option<(u32, u32)>,
    picture: Picture,
    container: Container,
}

impl<'a> Plan<'a> {
    /// Decides how `source` becomes what `params` ask for.
    fn new(
        source: &'a Probe,
        params: &TranscodeParams,
        encoder: Encoder,
        tone_maps: bool,
    ) -> Result<Self, MediaFailure> {
        let video = video_of(source, "source")?;
        let size = size_of(params, video).map_err(|failure| failure.about("source"))?;
        let audio = source
            .main_audio()
            .filter(|_| params.audio == Audio::Keep)
            .map(|audio| (audio.index, audio.channels));
        Ok(Self {
            source,
            video: video.index,
            audio,
            picture: Picture {
                fps: params.fps,
                ..Picture::of(video, size, encoder, quality(params), tone_maps)
            },
            container: container(params.codec),
        })
    }

    /// Draws captions. Frames must come often enough to show each at its time, whatever the source
    /// does, so that the rate becomes constant.
    fn draw(&mut self, file: Option<&'static str>) {
        self.picture.drawn = file;
        let video = self.source.main_video();
        self.picture.fps = self.picture.fps.or(video.map(steady_rate));
    }

    /// FFmpeg's arguments for reading `input` and writing `output`.
    fn arguments(&self, input: &Path, output: &Path, stop_after_seconds: u32) -> Args {
        let mut args = Args::followed();
        args.strict_about([self.source]);
        args.input(self.source.container, input);
        args.map(0, self.video);
        if let Some((index, _)) = self.audio {
            args.map(0, index);
        }
        args.nameless();
        args.word("-vf").word(self.picture.filters().join(","));
        self.picture.encode(&mut args);
        if let Some((_, channels)) = self.audio {
            args.film_sound(self.container, channels);
        }
        args.word("-t").word(stop_after_seconds.to_string());
        args.film(self.container, output);
        args
    }
}

#[cfg(test)]
#[path = "transcode_tests.rs"]
mod tests;
