//! `stitch_export.v1`: clips, one after the other, as one film.
//!
//! A clip is as long as its picture, rounded to whole frames of the film; its sound is cut to that
//! or followed by silence. So picture and sound meet again at every joint, and what the film has
//! to be is known to the frame before it is made.

mod fit;
mod graph;

use std::collections::BTreeMap;

use fencepost_domain::service::stitch_export::Clip;
use fencepost_domain::service::transcode::{Audio, VideoCodec};
use fencepost_domain::service::{ServiceName, StitchExportParams};

use super::measure::Stream;
use super::{encode_somehow, require_affordable, transcode, video_of};
use crate::judge::{Length, Promise, VideoPromise};
use crate::picture::steady_rate;
use crate::progress::{Meter, Stage};
use crate::size::output_size;
use crate::work::{Made, Task, invalid};
use crate::{MediaFailure, Probe, Size, Sources};
use graph::Graph;

/// Lengths of the inputs' pictures in seconds, by name.
type Lengths = BTreeMap<String, f64>;

/// Probes the clips and joins them.
pub(super) async fn make(
    task: &Task<'_>,
    params: &StitchExportParams,
) -> Result<Made, MediaFailure> {
    let mut sources = Sources::new();
    let mut lengths = Lengths::new();
    for name in in_order(task.job.inputs.keys()) {
        let source = task.probe(name).await?;
        let length = Stream::picture(name, &source)?.seconds(task).await?;
        lengths.insert(name.clone(), length);
        sources.insert(name.clone(), source);
    }
    let film = Film::of(params, &sources)?;
    let cuts = film.cuts(params, &sources, &lengths)?;
    let frames: u64 = cuts.iter().map(|cut| cut.frames).sum();
    let length = film.seconds(frames);
    require_affordable(Some(length), task.job.max_output_seconds)?;
    let encode = async |encoder| {
        let graph = Graph {
            params,
            film: &film,
            cuts: &cuts,
            sources: &sources,
            encoder,
            tone_maps: task.bench.tools.tone_maps,
        };
        let ends = (task.output, task.stop_after_seconds());
        let args = graph.arguments(&task.job.inputs, ends)?;
        let mut meter = Meter::new(Stage::Encoding, Some(length), task.on_progress);
        task.ffmpeg("encoding", args, &mut meter).await?;
        if meter.frames + 2 < frames {
            return Err(short(task, &sources, (meter.frames, frames)).await);
        }
        Ok(())
    };
    let chosen = transcode::choose(task, &params.encode)?;
    let encoder = encode_somehow((chosen, params.encode.hardware), encode).await?;
    Ok(Made {
        sources,
        encoder: Some(encoder),
        copied: false,
    })
}

/// What the output has to be; without its sources less is known.
pub(super) fn promise(params: &StitchExportParams, sources: &Sources) -> Promise {
    let promise = VideoPromise {
        lasting: true,
        ..transcode::film(&params.encode)
    };
    let Ok(film) = Film::of(params, sources) else {
        return Promise::Video(promise);
    };
    // Where one says nothing, nothing is known about the whole.
    let stated = sources.iter().map(|(name, source)| {
        let picture = Stream::picture(name, source).ok()?;
        Some((name.clone(), picture.believed()?))
    });
    let stated: Option<Lengths> = stated.collect();
    let cuts = stated.and_then(|lengths| film.cuts(params, sources, &lengths).ok());
    let length = cuts.map(|cuts| Length {
        seconds: film.seconds(cuts.iter().map(|cut| cut.frames).sum()),
        fps: Some(film.fps),
    });
    let sounds = usize::from(film.sound);
    Promise::Video(VideoPromise {
        width: Some(film.size.width),
        height: Some(film.size.height),
        fps: Some(film.fps),
        sounds: sounds..=sounds,
        length,
        ..promise
    })
}

/// What all of a film has in common.
struct Film {
    size: Size,
    fps: f64,
    /// Whether it has sound.
    sound: bool,
    /// Whether bright clips become ordinary even where the codec could keep them.
    ordinary: bool,
}

/// A clip of the film.
struct Cut {
    /// Name of its input.
    input: String,
    /// Where in the input it begins, in seconds.
    start: f64,
    /// How many frames of the film it takes.
    frames: u64,
}

impl Film {
    /// The film that these sources become. The first clip decides what was not asked for.
    fn of(params: &StitchExportParams, sources: &Sources) -> Result<Self, MediaFailure> {
        let clips = clips(params, sources);
        let used = || clips.iter().filter_map(|clip| sources.get(&clip.input));
        let first = clips.first().map_or("clip", |clip| clip.input.as_str());
        let source = used().next();
        let source = source.ok_or_else(|| invalid(format!("the job has no input {first}")))?;
        let video = video_of(source, first)?;
        let encode = &params.encode;
        let size =
            output_size(transcode::wish(encode), video).map_err(|failure| failure.about(first))?;
        let keeps_sound = encode.audio == Audio::Keep;
        let transfers = || {
            used()
                .filter_map(Probe::main_video)
                .map(|video| &video.transfer)
        };
        let mixed = transfers().any(|transfer| *transfer != video.transfer);
        Ok(Self {
            size,
            fps: encode.fps.unwrap_or_else(|| steady_rate(video)),
            sound: keeps_sound && used().any(|source| source.main_audio().is_some()),
            ordinary: mixed || encode.codec != VideoCodec::Prores,
        })
    }

    /// What is shown of each clip.
    fn cuts(
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
    fn seconds(&self, frames: u64) -> f64 {
        frames as f64 / self.fps
    }
}

/// The clips that were listed, or else all inputs.
fn clips(params: &StitchExportParams, sources: &Sources) -> Vec<Clip> {
    params.clips_of(in_order(sources.keys()).into_iter().map(String::as_str))
}

/// Names in the order of their numbers: as text `clip_10` would come before `clip_2`.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| ServiceName::StitchExportV1.place_of_input(name));
    names
}

/// Why a film has fewer frames than it must have: a clip ends earlier than it says.
async fn short(task: &Task<'_>, sources: &Sources, (found, wanted): (u64, u64)) -> MediaFailure {
    for (name, source) in sources {
        let Ok(picture) = Stream::picture(name, source) else {
            continue;
        };
        let Some(stated) = picture.believed() else {
            continue;
        };
        match picture.measured(task).await {
            Ok(length) if length + 0.5 < stated => {
                let problem =
                    format!("its picture ends at {length:.2} s, and it says {stated:.2} s");
                return invalid(problem).about(name);
            }
            Ok(_) => {}
            Err(failure) => return failure,
        }
    }
    invalid(format!(
        "the film has {found} frames instead of {wanted}: a clip ends earlier than it says"
    ))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths are bounded by the longest film that is sold"
)]
fn whole_frames(frames: f64) -> u64 {
    frames.round().max(1.0) as u64
}

#[cfg(test)]
mod tests;
