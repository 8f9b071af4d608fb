//! `transcode.v1`: one video in, one video out.

use std::path::Path;

use fencepost_domain::service::TranscodeParams;
use fencepost_domain::service::transcode::{Audio, VideoCodec};

use super::{encode_somehow, require_affordable, video_of};
use crate::args::Args;
use crate::encoder::Quality;
use crate::judge::{Length, Pictures, Promise, VideoPromise};
use crate::picture::Picture;
use crate::progress::{Meter, Stage};
use crate::size::{SizeWish, output_size};
use crate::work::{Made, Task};
use crate::{Container, Encoder, MediaFailure, Probe, Sources};

/// Probes the source and encodes it.
pub(super) async fn make(task: &Task<'_>, params: &TranscodeParams) -> Result<Made, MediaFailure> {
    let source = task.probe("source").await?;
    let length = source.expected_seconds(params.audio == Audio::Keep);
    require_affordable(length, task.job.max_output_seconds)?;
    let proven = task.has_videotoolbox(params.codec);
    let quality = quality(params);
    let has_scale = matches!(quality, Quality::Crf(_));
    let chosen = Encoder::choose(params.codec, params.hardware, (has_scale, proven))?;
    let encode = async |encoder| {
        let plan = Plan::new(&source, params, encoder, task.bench.tools.tone_maps)?;
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

/// What the output has to be; without its source less is known.
pub(super) fn promise(params: &TranscodeParams, sources: &Sources) -> Promise {
    let source = sources.get("source");
    let with_audio = params.audio == Audio::Keep;
    let (pictures, sound): (Pictures, _) = match params.codec {
        VideoCodec::H264 => (&[(VideoCodec::H264, "yuv420p")], "aac"),
        VideoCodec::Hevc => (&[(VideoCodec::Hevc, "yuv420p")], "aac"),
        VideoCodec::Vp9 => (&[(VideoCodec::Vp9, "yuv420p")], "opus"),
        VideoCodec::Prores => (&[(VideoCodec::Prores, "yuv422p10le")], "aac"),
    };
    let size = source
        .and_then(Probe::main_video)
        .and_then(|video| output_size(wish(params), video).ok());
    let sounds = match source {
        Some(source) => {
            let wanted = usize::from(with_audio && source.main_audio().is_some());
            wanted..=wanted
        }
        None => 0..=usize::from(with_audio),
    };
    Promise::Video(VideoPromise {
        container: container(params.codec),
        pictures,
        width: size.map_or(params.width, |size| Some(size.width)),
        height: size.map_or(params.height, |size| Some(size.height)),
        fps: params.fps,
        sound,
        sounds,
        captions: 0..=0,
        length: source.and_then(|source| Length::like(source, with_audio)),
    })
}

fn container(codec: VideoCodec) -> Container {
    match codec {
        VideoCodec::H264 | VideoCodec::Hevc => Container::Mp4,
        VideoCodec::Vp9 => Container::Webm,
        VideoCodec::Prores => Container::Mov,
    }
}

fn wish(params: &TranscodeParams) -> SizeWish {
    SizeWish::even(params.width, params.height)
}

fn quality(params: &TranscodeParams) -> Quality {
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
        let size = output_size(wish(params), video)?;
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
