//! `assemble.v1`: a picture, its sound and its captions, in one file.

mod parts;

use fencepost_domain::service::AssembleParams;
use fencepost_domain::service::assemble::Length as Wished;
use fencepost_domain::service::transcode::{Hardware, VideoCodec};

use super::measure::Stream;
use super::{encode_somehow, require_affordable};
use crate::captions::Captions;
use crate::judge::{Length, Pictures, Promise, VideoPromise};
use crate::size::{SizeWish, output_size};
use crate::work::{Made, Partial, Task, invalid};
use crate::{Container, Encoder, MediaFailure, Sources};
use parts::Parts;

/// Pictures that every player shows alike.
const PICTURES: Pictures = &[(VideoCodec::H264, "yuv420p"), (VideoCodec::Hevc, "yuv420p")];
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

#[cfg(test)]
mod tests;
