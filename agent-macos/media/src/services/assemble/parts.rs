//! FFmpeg's arguments for putting together what there is: the picture is taken over as it is where
//! that loses nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fencepost_domain::service::transcode::VideoCodec;

use super::PICTURES;
use crate::args::Args;
use crate::encoder::Quality;
use crate::picture::{Picture, steady_rate};
use crate::probe::begins_cleanly;
use crate::progress::{Meter, Stage};
use crate::services::measure::Stream;
use crate::services::video_of;
use crate::size::{SizeWish, output_size};
use crate::work::{Task, file_of};
use crate::{Container, Encoder, FailureCode, MediaFailure, VideoStream};

/// How late a picture may begin that is written as it comes, in seconds.
const LATE_SECONDS: f64 = 0.1;

/// What is put together.
pub(super) struct Parts<'a> {
    pub(super) picture: Stream<'a>,
    pub(super) sound: Option<Stream<'a>>,
    pub(super) captions: Option<&'a Path>,
    pub(super) language: Option<&'a str>,
    /// How long the film is, in seconds.
    pub(super) length: f64,
}

impl Parts<'_> {
    /// Takes the picture over as it is, and says whether that was possible.
    pub(super) async fn copy(&self, task: &Task<'_>) -> Result<bool, MediaFailure> {
        let source = self.picture.source;
        let video = video_of(source, "video")?;
        if !(is_plain(source.container, video)
            && begins_cleanly(
                task.bench,
                task.file("video")?,
                source.container,
                video.index,
            )
            .await?)
        {
            return Ok(false);
        }
        match self.run(task, None).await {
            Ok(()) => Ok(true),
            // Its container holds what an mp4 cannot, such as packets without times.
            Err(MediaFailure::Failed {
                code: FailureCode::RunnerFailed,
                message,
            }) => {
                tracing::debug!(message, "the picture cannot be taken over");
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    pub(super) async fn run(
        &self,
        task: &Task<'_>,
        encoder: Option<Encoder>,
    ) -> Result<(), MediaFailure> {
        let (inputs, output) = (&task.job.inputs, task.output);
        let how = (encoder, task.bench.tools.tone_maps);
        let args = self.arguments(inputs, output, how)?;
        let mut meter = Meter::new(Stage::Encoding, Some(self.length), task.on_progress);
        task.ffmpeg("encoding", args, &mut meter).await.map(drop)
    }

    /// FFmpeg's arguments; without an encoder the picture is taken over.
    pub(super) fn arguments(
        &self,
        files: &BTreeMap<String, PathBuf>,
        output: &Path,
        (encoder, tone_maps): (Option<Encoder>, bool),
    ) -> Result<Args, MediaFailure> {
        let source = self.picture.source;
        let other = self.sound.filter(|sound| sound.input != self.picture.input);
        let mut args = Args::followed();
        args.strict_about([source].into_iter().chain(other.map(|sound| sound.source)));
        args.input(source.container, file_of(files, self.picture.input)?);
        if let Some(sound) = other {
            args.input(sound.source.container, file_of(files, sound.input)?);
        }
        if let Some(captions) = self.captions {
            args.input_as("srt", captions);
        }
        let sound_at = usize::from(other.is_some());
        args.map(0, self.picture.index);
        if let Some(sound) = self.sound {
            args.map(sound_at, sound.index);
        }
        if self.captions.is_some() {
            args.map(sound_at + 1, 0);
        }
        args.nameless();
        self.picture(&mut args, encoder, tone_maps)?;
        self.sound(&mut args);
        if self.captions.is_some() {
            args.words("-c:s mov_text");
        }
        if let Some(language) = self.language {
            args.words("-metadata:s:s:0")
                .word(format!("language={language}"));
        }
        args.word("-t").word(format!("{:.6}", self.length));
        args.film(Container::Mp4, output);
        Ok(args)
    }

    fn picture(
        &self,
        args: &mut Args,
        encoder: Option<Encoder>,
        tone_maps: bool,
    ) -> Result<(), MediaFailure> {
        let video = video_of(self.picture.source, "video")?;
        if let Some(encoder) = encoder {
            let size = output_size(SizeWish::even(None, None), video)?;
            let mut picture = Picture::of(video, size, encoder, Quality::Usual, tone_maps);
            let mut chain = Vec::new();
            if video.late_seconds > LATE_SECONDS {
                // What comes late is shown from the beginning: a film has a picture at all times.
                let fps = steady_rate(video);
                picture.fps = Some(fps);
                chain.push(format!("fps={fps}:start_time=0"));
            }
            chain.extend(picture.filters());
            args.word("-vf").word(chain.join(","));
            picture.encode(args);
        } else if video.codec == VideoCodec::Hevc.as_str() {
            // Without messages that are no picture: what a camera or a program says about itself.
            args.words("-c:v copy -tag:v hvc1 -bsf:v filter_units=remove_types=39|40");
        } else {
            args.words("-c:v copy -bsf:v filter_units=remove_types=6");
        }
        Ok(())
    }

    /// Gaps, a late start and what is missing at the end become silence.
    fn sound(&self, args: &mut Args) {
        let Some(audio) = self.sound.and_then(|sound| sound.source.main_audio()) else {
            return;
        };
        let length = self.length;
        args.word("-af").word(format!(
            "aresample=48000:async=1:first_pts=0,apad,atrim=end={length:.6}"
        ));
        args.film_sound(Container::Mp4, audio.channels);
    }
}

/// Whether every player shows this picture alike, and FFmpeg can move it into an mp4.
pub(super) fn is_plain(container: Container, video: &VideoStream) -> bool {
    let known = PICTURES
        .iter()
        .any(|(codec, format)| codec.as_str() == video.codec && *format == video.pixel_format);
    let upright = video.rotation == 0 && video.square_pixels && video.displayed == video.stored;
    let moves = matches!(
        container,
        Container::Mp4 | Container::Mov | Container::Matroska
    );
    known && upright && moves && output_size(SizeWish::even(None, None), video).is_ok()
}
