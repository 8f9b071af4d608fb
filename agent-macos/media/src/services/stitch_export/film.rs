//! What a film becomes: its size and rate, and how many of its frames each clip takes.

use std::collections::BTreeMap;

use fencepost_domain::service::stitch_export::Clip;
use fencepost_domain::service::transcode::{Audio, VideoCodec};
use fencepost_domain::service::{ServiceName, StitchExportParams};

use crate::picture::steady_rate;
use crate::services::{transcode, video_of};
use crate::size::{SizeWish, output_size};
use crate::work::invalid;
use crate::{MediaFailure, Probe, Size, Sources};

/// Lengths of the inputs' pictures in seconds, by name.
pub(super) type Lengths = BTreeMap<String, f64>;

/// What all of a film has in common.
pub(super) struct Film {
    pub(super) size: Size,
    pub(super) fps: f64,
    /// Whether it has sound.
    pub(super) sound: bool,
    /// Whether bright clips become ordinary even where the codec could keep them.
    pub(super) ordinary: bool,
    /// Whether the colours of all clips mean the same and may stay as they are. Otherwise all of
    /// them become those of ordinary high definition.
    pub(super) coloured_alike: bool,
}

/// A clip of the film.
pub(super) struct Cut {
    /// Name of its input.
    pub(super) input: String,
    /// Where in the input it begins, in seconds.
    pub(super) start: f64,
    /// How many frames of the film it takes.
    pub(super) frames: u64,
}

impl Film {
    /// The film that these sources become. The first clip decides what was not asked for.
    pub(super) fn of(params: &StitchExportParams, sources: &Sources) -> Result<Self, MediaFailure> {
        let clips = clips(params, sources);
        let used = || clips.iter().filter_map(|clip| sources.get(&clip.input));
        let first = clips.first().map_or("clip", |clip| clip.input.as_str());
        let source = used().next();
        let source = source.ok_or_else(|| invalid(format!("the job has no input {first}")))?;
        let video = video_of(source, first)?;
        let encode = &params.encode;
        let size = transcode::size_of(encode, video).map_err(|failure| failure.about(first))?;
        for (source, clip) in used().zip(&clips) {
            // Of the others only that they can be decoded: they are made to fit.
            let fitting = SizeWish::even(Some(size.width), Some(size.height));
            output_size(fitting, video_of(source, &clip.input)?)
                .map_err(|failure| failure.about(&clip.input))?;
        }
        let keeps_sound = encode.audio == Audio::Keep;
        let videos = || used().filter_map(Probe::main_video);
        let mixed = videos().any(|other| other.transfer != video.transfer);
        Ok(Self {
            size,
            fps: encode.fps.unwrap_or_else(|| steady_rate(video)),
            sound: keeps_sound && used().any(|source| source.main_audio().is_some()),
            coloured_alike: videos().all(|other| other.is_coloured_like(video)),
            ordinary: mixed || encode.codec != VideoCodec::Prores,
        })
    }

    /// What is shown of each clip.
    pub(super) fn cuts(
        &self,
        params: &StitchExportParams,
        sources: &Sources,
        lengths: &Lengths,
    ) -> Result<Vec<Cut>, MediaFailure> {
        let clips = clips(params, sources).into_iter().enumerate();
        clips
            .map(|(position, clip)| {
                let name = clip.input.as_str();
                let missing = || invalid(format!("the job has no input {name}"));
                let length = *lengths.get(name).ok_or_else(missing)?;
                let start = clip.start_seconds.unwrap_or(0.0);
                if start >= length {
                    let problem = format!(
                        "clips[{position}] begins at {start} s, and the input is {length:.2} s long"
                    );
                    return Err(invalid(problem).about(name));
                }
                let end = clip.end_seconds.unwrap_or(length).min(length);
                Ok(Cut {
                    frames: whole_frames((end - start) * self.fps),
                    start,
                    input: clip.input,
                })
            })
            .collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "no film has so many frames")]
    pub(super) fn seconds(&self, frames: u64) -> f64 {
        frames as f64 / self.fps
    }
}

/// The clips that were listed, or else all inputs.
fn clips(params: &StitchExportParams, sources: &Sources) -> Vec<Clip> {
    params.clips_of(in_order(sources.keys()).into_iter().map(String::as_str))
}

/// Names in the order of their numbers: as text `clip_10` would come before `clip_2`.
pub(super) fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| ServiceName::StitchExportV1.place_of_input(name));
    names
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths are bounded by the longest film that is sold"
)]
fn whole_frames(frames: f64) -> u64 {
    frames.round().max(1.0) as u64
}
