//! `stitch_export.v1`: clips, one after the other, as one film.
//!
//! A clip is as long as its picture, rounded to whole frames of the film; its sound is cut to that
//! or followed by silence. So picture and sound meet again at every joint, and what the film has
//! to be is known to the frame before it is made.

mod film;
mod fit;
mod graph;

use fencepost_domain::service::StitchExportParams;

use super::measure::Stream;
use super::{encode_somehow, require_affordable, transcode};
use crate::judge::{Length, Promise, VideoPromise};
use crate::progress::{Meter, Stage};
use crate::work::{Made, Task, invalid};
use crate::{FailureCode, MediaFailure, Sources};
use film::{Film, Lengths, in_order};
use graph::Graph;

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
        let done = task.ffmpeg_after("encoding", args, &mut meter, graph.run_up());
        match done.await {
            Ok(_) if meter.frames + 2 >= frames => Ok(()),
            Ok(_) => {
                let problem = format!("the film has {} frames instead of {frames}", meter.frames);
                Err(blame(task, &graph)
                    .await?
                    .unwrap_or_else(|| invalid(problem)))
            }
            // FFmpeg does not always say of which clip it speaks, and of one that has no picture at
            // all it says nothing.
            Err(failure) => match failure.code() {
                Some(FailureCode::RunnerFailed | FailureCode::InputInvalid) => {
                    Err(blame(task, &graph).await?.unwrap_or(failure))
                }
                _ => Err(failure),
            },
        }
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

/// The clip that has fewer frames than the film takes of it, if there is one.
async fn blame(task: &Task<'_>, graph: &Graph<'_>) -> Result<Option<MediaFailure>, MediaFailure> {
    for (position, cut) in graph.cuts.iter().enumerate() {
        let args = graph.counting(cut, &task.job.inputs)?;
        let mut meter = Meter::new(Stage::Encoding, None, task.on_progress);
        let done = task.ffmpeg_after("decoding", args, &mut meter, graph.run_up());
        let about = |failure: MediaFailure| failure.about(&cut.input);
        match done.await {
            Ok(_) if meter.frames < cut.frames => {}
            Ok(_) => continue,
            Err(failure) if failure.code() == Some(FailureCode::InputInvalid) => {
                return Ok(Some(about(failure)));
            }
            Err(failure) => return Err(about(failure)),
        }
        let (start, end) = (cut.start, cut.start + graph.film.seconds(cut.frames));
        let source = task.probe(&cut.input).await?;
        let picture = Stream::picture(&cut.input, &source)?;
        let why = match picture.found(task).await {
            Ok(length) if length < end => {
                let said = picture.believed().filter(|said| *said > length);
                let said = said.map(|said| format!(", although it says {said:.2} s"));
                format!(
                    "its picture ends at {length:.2} s{}",
                    said.unwrap_or_default()
                )
            }
            _ => "not all of its picture can be decoded".to_owned(),
        };
        let (found, wanted) = (meter.frames, cut.frames);
        return Ok(Some(about(invalid(format!(
            "clips[{position}], from {start:.2} s to {end:.2} s, has {found} frames for the film \
             instead of {wanted}: {why}"
        )))));
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
