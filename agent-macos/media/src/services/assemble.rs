//! `assemble.v1`: a picture, its sound and its captions, in one file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fencepost_domain::service::AssembleParams;
use fencepost_domain::service::assemble::Length as Wished;
use fencepost_domain::service::transcode::{Hardware, VideoCodec};

use super::measure::Stream;
use super::{encode_somehow, require_affordable, video_of};
use crate::args::Args;
use crate::captions::Captions;
use crate::encoder::Quality;
use crate::judge::{Length, Pictures, Promise, VideoPromise};
use crate::picture::{Picture, steady_rate};
use crate::probe::begins_cleanly;
use crate::progress::{Meter, Stage};
use crate::size::{SizeWish, output_size};
use crate::work::{Made, Partial, Task, file_of, invalid};
use crate::{Container, Encoder, FailureCode, MediaFailure, Sources, VideoStream};

/// Pictures that every player shows alike.
const PICTURES: Pictures = &[(VideoCodec::H264, "yuv420p"), (VideoCodec::Hevc, "yuv420p")];
/// How late a picture may begin that is written as it comes, in seconds.
const LATE_SECONDS: f64 = 0.1;
/// Name of the captions within the workbench's folder.
const CAPTIONS: &str = "captions.srt";

/// Probes what there is and puts it together.
pub(super) async fn make(task: &Task<'_>, params: &AssembleParams) -> Result<Made, MediaFailure> {
    let mut sources = Sources::new();
    for name in ["video", "audio"] {
        if task.job.inputs.contains_key(name) {
            sources.insert(name.to_owned(), task.probe(name).await?);
        }
    }
    let (picture, sound) = streams(&sources)?;
    let mut length = picture.seconds(task).await?;
    if let (Wished::Shortest, Some(sound)) = (params.length, sound) {
        length = length.min(sound.seconds(task).await?);
    }
    require_affordable(Some(length), task.job.max_output_seconds)?;
    let captions = write_captions(task, length).await?;
    let parts = Parts {
        picture,
        sound,
        captions: captions.as_ref().map(|file| file.path.as_path()),
        language: params.caption_language.as_deref(),
        length,
    };
    let encoder = if parts.copy(task).await? {
        None
    } else {
        let proven = task.has_videotoolbox(VideoCodec::H264);
        let chosen = Encoder::choose(VideoCodec::H264, Hardware::Prefer, (false, proven))?;
        let encode = async |encoder| parts.run(task, Some(encoder)).await;
        Some(encode_somehow((chosen, Hardware::Prefer), encode).await?)
    };
    Ok(Made {
        sources,
        encoder,
        copied: encoder.is_none(),
    })
}

/// What the output has to be; without its sources less is known.
pub(super) fn promise(params: &AssembleParams, sources: &Sources) -> Promise {
    // Captions are no source; but without other sound there must be some.
    let has_captions = params.caption_language.is_some()
        || (sources.contains_key("video") && !sources.contains_key("audio"));
    let promise = VideoPromise {
        container: Container::Mp4,
        pictures: PICTURES,
        width: None,
        height: None,
        fps: None,
        sound: "aac",
        sounds: 0..=1,
        captions: usize::from(has_captions)..=1,
        length: None,
        lasting: true,
    };
    let Ok((picture, sound)) = streams(sources) else {
        return Promise::Video(promise);
    };
    let video = picture.source.main_video();
    let size = video.and_then(|video| output_size(SizeWish::even(None, None), video).ok());
    let seconds = match (params.length, sound) {
        (Wished::Shortest, Some(sound)) => picture.believed().zip(sound.believed()),
        _ => picture.believed().map(|length| (length, length)),
    };
    let sounds = usize::from(sound.is_some());
    Promise::Video(VideoPromise {
        width: size.map(|size| size.width),
        height: size.map(|size| size.height),
        sounds: sounds..=sounds,
        length: seconds.map(|(picture, sound)| Length {
            seconds: picture.min(sound),
            fps: video.and_then(|video| video.fps),
        }),
        ..promise
    })
}

/// The picture, and the sound that goes with it.
fn streams(sources: &Sources) -> Result<(Stream<'_>, Option<Stream<'_>>), MediaFailure> {
    let missing = || invalid("the job has no input video");
    let video = sources.get("video").ok_or_else(missing)?;
    let picture = Stream::picture("video", video)?;
    let sound = match sources.get("audio") {
        Some(audio) => Some(Stream::sound("audio", audio)?),
        None => Stream::sound("video", video).ok(),
    };
    Ok((picture, sound))
}

/// Reads the captions, if there are any, and writes them anew.
async fn write_captions(task: &Task<'_>, length: f64) -> Result<Option<Partial>, MediaFailure> {
    let about = |failure: MediaFailure| failure.about("captions");
    let Some(file) = task.job.inputs.get("captions") else {
        return Ok(None);
    };
    let captions = Captions::read(file).await.map_err(about)?;
    let text = captions.as_subrip(length).map_err(about)?;
    captions.require_some_within(Some(length)).map_err(about)?;
    let file = Partial::new(task.bench.folder.join(CAPTIONS));
    tokio::fs::write(&file.path, text)
        .await
        .map_err(|error| MediaFailure::io("the captions cannot be written", &error))?;
    Ok(Some(file))
}

/// What is put together.
struct Parts<'a> {
    picture: Stream<'a>,
    sound: Option<Stream<'a>>,
    captions: Option<&'a Path>,
    language: Option<&'a str>,
    /// How long the film is, in seconds.
    length: f64,
}

impl Parts<'_> {
    /// Takes the picture over as it is, and says whether that was possible.
    async fn copy(&self, task: &Task<'_>) -> Result<bool, MediaFailure> {
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

    async fn run(&self, task: &Task<'_>, encoder: Option<Encoder>) -> Result<(), MediaFailure> {
        let (inputs, output) = (&task.job.inputs, task.output);
        let how = (encoder, task.bench.tools.tone_maps);
        let args = self.arguments(inputs, output, how)?;
        let mut meter = Meter::new(Stage::Encoding, Some(self.length), task.on_progress);
        task.ffmpeg("encoding", args, &mut meter).await.map(drop)
    }

    /// FFmpeg's arguments; without an encoder the picture is taken over.
    fn arguments(
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
fn is_plain(container: Container, video: &VideoStream) -> bool {
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

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
