//! `remotion.inspect.v1` and `remotion.render.v1`: what a bundle can show, and a film of it.
//!
//! A browser draws the frames into a master that is next to lossless; from there on a film is a
//! transcode like any other, with its encoders, its limits and its promise.

use std::collections::BTreeMap;
use std::path::Path;

use fencepost_domain::bundle::INDEX;
use fencepost_domain::service::{
    Composition, Compositions, RemotionInspectParams, RemotionRenderParams, ServiceParams,
};
use serde_json::Value;

use super::transcode;
use crate::progress::{Progress, Stage};
use crate::remotion::{Drawing, Errand, Listener, Remotion, frames_of, run};
use crate::work::{Job, Made, Partial, Task, invalid};
use crate::{FailureCode, MediaFailure, Sources};

/// Name of the master within the workbench's folder.
const MASTER: &str = "master.mkv";
/// Name of the list that the script writes.
const LIST: &str = "compositions.json";
/// Files that every bundle has.
const PARTS: [&str; 2] = [INDEX, "bundle.js"];
/// The most bytes of what a bundle says about itself.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 1 << 20;
/// Drawing fills the percentage up to here.
const DRAWN: u8 = 75;

/// Lists what a bundle has.
pub(super) async fn inspect(
    task: &Task<'_>,
    params: &RemotionInspectParams,
) -> Result<Made, MediaFailure> {
    let remotion = remotion_of(task)?;
    let list = Partial::new(task.bench.folder.join(LIST));
    let errand = Errand {
        bundle: bundle_of(task)?,
        props: &params.props,
        drawing: None,
        output: &list.path,
    };
    run(task.bench, remotion, &errand, &mut Nobody).await?;
    let document = Compositions {
        renderer_version: remotion.version.clone(),
        compositions: read_list(&list.path).await?,
    };
    let text = serde_json::to_vec_pretty(&document)
        .map_err(|error| invalid(format!("what the bundle says is no JSON: {error}")))?;
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(too_much());
    }
    tokio::fs::write(task.output, text)
        .await
        .map_err(|error| MediaFailure::io("the list cannot be written", &error))?;
    Ok(Made {
        sources: Sources::new(),
        encoder: None,
        copied: true,
    })
}

/// Draws the frames of a composition and encodes them.
pub(super) async fn render(
    task: &Task<'_>,
    params: &RemotionRenderParams,
) -> Result<Made, MediaFailure> {
    let remotion = remotion_of(task)?;
    // Before any frame is drawn.
    transcode::choose(task, &params.encode)?;
    let master = Partial::new(task.bench.folder.join(MASTER));
    let errand = Errand {
        bundle: bundle_of(task)?,
        props: &params.props,
        drawing: Some(Drawing {
            composition: &params.composition,
            first_frame: params.first_frame,
            last_frame: params.last_frame,
        }),
        output: &master.path,
    };
    let mut follower = Follower {
        task,
        params,
        frames: 1,
        fps: 1.0,
    };
    run(task.bench, remotion, &errand, &mut follower).await?;
    encode(task, params, &master.path).await
}

/// The master as the source of a transcode. The film has no other source to be judged by.
async fn encode(
    task: &Task<'_>,
    params: &RemotionRenderParams,
    master: &Path,
) -> Result<Made, MediaFailure> {
    let job = Job {
        params: ServiceParams::Transcode(params.encode.clone()),
        inputs: BTreeMap::from([("source".to_owned(), master.to_owned())]),
        ..task.job.clone()
    };
    let transcode = Task {
        job: &job,
        on_progress: &|progress| {
            let percent = progress.percent.map(|percent| DRAWN + percent / 6);
            (task.on_progress)(Progress {
                percent,
                ..progress
            });
        },
        ..*task
    };
    transcode::make(&transcode, &params.encode).await
}

/// The folder of the bundle, if it looks like one.
fn bundle_of<'a>(task: &'a Task<'_>) -> Result<&'a Path, MediaFailure> {
    let folder = task.file("bundle")?;
    let missing = PARTS.iter().find(|name| !folder.join(name).is_file());
    match missing {
        Some(name) => Err(invalid(format!(
            "there is no {name} in it: list all files that `npx remotion bundle` has made"
        ))
        .about("bundle")),
        None => Ok(folder),
    }
}

fn remotion_of<'a>(task: &Task<'a>) -> Result<&'a Remotion, MediaFailure> {
    task.bench.tools.remotion.as_ref().ok_or_else(|| {
        let message = "Remotion is not installed on this machine";
        MediaFailure::new(FailureCode::DeviceFault, message)
    })
}

async fn read_list(file: &Path) -> Result<Vec<Composition>, MediaFailure> {
    let unreadable = |error| MediaFailure::io("the list cannot be read", &error);
    let size = tokio::fs::metadata(file).await.map_err(unreadable)?.len();
    if size > MAX_DOCUMENT_BYTES {
        return Err(too_much());
    }
    let text = tokio::fs::read(file).await.map_err(unreadable)?;
    serde_json::from_slice(&text)
        .map_err(|error| invalid(format!("a composition is not as it should be: {error}")))
}

fn too_much() -> MediaFailure {
    invalid(format!(
        "the compositions and their default properties have more than {MAX_DOCUMENT_BYTES} bytes as JSON"
    ))
}

/// For an errand that draws nothing.
struct Nobody;

impl Listener for Nobody {
    fn composition(&mut self, _described: Value) -> Result<(), MediaFailure> {
        Ok(())
    }

    fn drawn(&mut self, _frames: u32) {}
}

/// Judges a composition before it is drawn, and tells how far that is.
struct Follower<'a> {
    task: &'a Task<'a>,
    params: &'a RemotionRenderParams,
    frames: u32,
    fps: f64,
}

impl Listener for Follower<'_> {
    fn composition(&mut self, described: Value) -> Result<(), MediaFailure> {
        let composition: Composition = serde_json::from_value(described)
            .map_err(|error| invalid(format!("the composition is not as it should be: {error}")))?;
        let most = self.task.job.max_output_seconds;
        self.frames = frames_of(&composition, self.params, most)?.number();
        self.fps = composition.fps;
        Ok(())
    }

    fn drawn(&mut self, frames: u32) {
        let part = u64::from(frames.min(self.frames)) * u64::from(DRAWN) / u64::from(self.frames);
        (self.task.on_progress)(Progress {
            stage: Stage::Encoding,
            percent: Some(u8::try_from(part).unwrap_or(DRAWN)),
            media_seconds: f64::from(frames) / self.fps,
        });
    }
}
