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
use crate::{MediaFailure, Sources};
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

#[cfg(test)]
mod tests;
