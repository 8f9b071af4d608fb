//! `caption_burn.v1`: captions, drawn into the picture of a video.

use fencepost_domain::service::CaptionBurnParams;
use fencepost_domain::service::transcode::Audio;

use super::{require_affordable, transcode, video_of};
use crate::captions::{Captions, Look};
use crate::judge::Promise;
use crate::work::{Made, Partial, Task};
use crate::{MediaFailure, Sources};

/// Name of the script within the workbench's folder, which is FFmpeg's working folder: so nothing
/// of any path has to be escaped for its filters.
const SCRIPT: &str = "captions.ass";

/// Reads the captions, writes them anew and draws them.
pub(super) async fn make(
    task: &Task<'_>,
    params: &CaptionBurnParams,
) -> Result<Made, MediaFailure> {
    let captions = Captions::read(task.file("captions")?);
    let captions = captions
        .await
        .map_err(|failure| failure.about("captions"))?;
    let source = task.probe("source").await?;
    let length = source.expected_seconds(params.encode.audio == Audio::Keep);
    require_affordable(length, task.job.max_output_seconds)?;
    let video = video_of(&source, "source")?;
    let picture = source.container.states_duration();
    captions
        .require_some_within(video.end_seconds.or(length).filter(|_| picture))
        .map_err(|failure| failure.about("captions"))?;
    let look = Look {
        size: transcode::size_of(&params.encode, video)
            .map_err(|failure| failure.about("source"))?,
        position: params.position,
        size_percent: params.size_percent(),
    };
    let script = Partial::new(task.bench.folder.join(SCRIPT));
    tokio::fs::write(&script.path, captions.as_script(look))
        .await
        .map_err(|error| MediaFailure::io("the captions cannot be written", &error))?;
    transcode::write(task, &params.encode, source, Some(SCRIPT)).await
}

/// What the output has to be: what a transcode of the source would be.
pub(super) fn promise(params: &CaptionBurnParams, sources: &Sources) -> Promise {
    transcode::promise(&params.encode, sources)
}
