//! The services, each in a file of its own: how its output is made, and what that has to be.

mod assemble;
mod audio_mix;
mod caption_burn;
mod measure;
pub(crate) mod remotion;
mod stitch_export;
mod thumbnail;
mod transcode;

use fencepost_domain::service::ServiceParams;
use fencepost_domain::service::transcode::{Hardware, VideoCodec};

use crate::judge::Promise;
use crate::work::{Made, Task, invalid};
use crate::{Encoder, Expectation, FailureCode, MediaFailure, Probe, Sources};

/// Sound is stored in blocks, so that an output may end a little later than its source.
pub(crate) const LENGTH_SLACK_SECONDS: f64 = 1.0;

/// Makes the output of a task.
pub(crate) async fn make(task: &Task<'_>) -> Result<Made, MediaFailure> {
    match &task.job.params {
        ServiceParams::Transcode(params) => transcode::make(task, params).await,
        ServiceParams::StitchExport(params) => stitch_export::make(task, params).await,
        ServiceParams::CaptionBurn(params) => caption_burn::make(task, params).await,
        ServiceParams::Assemble(params) => assemble::make(task, params).await,
        ServiceParams::AudioMix(params) => audio_mix::make(task, params).await,
        ServiceParams::Thumbnail(params) => thumbnail::make(task, params).await,
        ServiceParams::RemotionInspect(params) => remotion::inspect(task, params).await,
        ServiceParams::RemotionRender(params) => remotion::render(task, params).await,
        ServiceParams::Noop(_) => Err(invalid("this agent does not run that service")),
    }
}

impl Expectation {
    /// What an output of these parameters has to be, as far as its sources are known; nothing where
    /// nothing is promised but bytes.
    pub fn of(params: &ServiceParams, sources: &Sources, max_output_seconds: u32) -> Option<Self> {
        let promise = match params {
            ServiceParams::Transcode(params) => transcode::promise(params, sources),
            ServiceParams::StitchExport(params) => stitch_export::promise(params, sources),
            ServiceParams::CaptionBurn(params) => caption_burn::promise(params, sources),
            ServiceParams::Assemble(params) => assemble::promise(params, sources),
            ServiceParams::AudioMix(params) => audio_mix::promise(params, sources),
            ServiceParams::Thumbnail(params) => thumbnail::promise(params, sources),
            ServiceParams::RemotionInspect(_) => Promise::Compositions,
            ServiceParams::RemotionRender(params) => transcode::promise(&params.encode, sources),
            ServiceParams::Noop(_) => return None,
        };
        Some(Self {
            promise,
            max_output_seconds,
        })
    }
}

/// Refuses, before anything is decoded, work whose output would be longer than what was sold.
pub(crate) fn require_affordable(length: Option<f64>, most: u32) -> Result<(), MediaFailure> {
    let most = f64::from(most);
    match length {
        Some(length) if length > most + LENGTH_SLACK_SECONDS / 2.0 => Err(invalid(format!(
            "the output would be {length:.2} s long, and at most {most} s were asked for: raise \
             limits.max_output_seconds"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The first real video of a source.
fn video_of<'a>(source: &'a Probe, name: &str) -> Result<&'a crate::VideoStream, MediaFailure> {
    let video = source.main_video();
    video.ok_or_else(|| invalid("there is no video in it").about(name))
}

/// Encodes with the encoder of choice. When VideoToolbox fails although it was proven, that is the
/// machine's fault; where the buyer left the choice to us, software takes over.
async fn encode_somehow<F>(
    (chosen, hardware): (Encoder, Hardware),
    encode: impl Fn(Encoder) -> F,
) -> Result<Encoder, MediaFailure>
where
    F: Future<Output = Result<(), MediaFailure>>,
{
    let failure = match encode(chosen).await {
        Ok(()) => return Ok(chosen),
        Err(failure) => failure,
    };
    match (chosen, failure) {
        (
            Encoder::VideoToolbox(codec),
            MediaFailure::Failed {
                code: FailureCode::RunnerFailed,
                message,
            },
        ) => {
            if hardware == Hardware::Require {
                return Err(MediaFailure::new(FailureCode::DeviceFault, message));
            }
            tracing::warn!(message, "VideoToolbox failed, encoding in software");
            let software = Encoder::Software(codec);
            encode(software).await.map(|()| software)
        }
        (_, failure) => Err(failure),
    }
}

impl Task<'_> {
    /// Whether this machine has proven VideoToolbox for a codec.
    fn has_videotoolbox(&self, codec: VideoCodec) -> bool {
        self.has_proven(&format!("videotoolbox.{}", codec.as_str()))
    }
}
