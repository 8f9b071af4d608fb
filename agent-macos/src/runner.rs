//! The services that this agent runs, on top of the media crate.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_domain::service::{Capability, ServiceName, ServiceParams, TranscodeParams};
use fencepost_media::{
    Limits, MediaFailure, Overrides, Progress, Roster, StopSignal, Tools, TranscodeJob, Workbench,
};

use crate::core::Work;
use crate::transfer::{LeaseWatch, StepError};

/// What this machine can run: its FFmpeg, and what that FFmpeg has proven.
#[derive(Debug, Clone)]
pub struct Runner {
    tools: Tools,
    proven: BTreeSet<Capability>,
}

impl Runner {
    /// Finds FFmpeg and tries it in `folder`, which takes a few seconds. From then on its children
    /// are entered in `roster`.
    pub async fn prove(
        overrides: &Overrides,
        folder: &Path,
        roster: Roster,
        stop: &StopSignal,
    ) -> Result<Self, MediaFailure> {
        let mut tools = Tools::find(overrides).await?;
        tools.roster = Some(roster);
        let bench = Workbench {
            tools: tools.clone(),
            folder: folder.to_owned(),
            limits: Limits::default(),
            stop: stop.clone(),
        };
        let proven = fencepost_media::capabilities(&bench).await;
        tracing::info!(
            ffmpeg = %tools.ffmpeg.display(),
            version = tools.version,
            isolation = tools.isolation.describe(),
            "FFmpeg found and tried"
        );
        Ok(Self { tools, proven })
    }

    /// What was proven.
    pub fn capabilities(&self) -> Vec<Capability> {
        self.proven.iter().cloned().collect()
    }

    /// Runs the service on the input and gives the file it wrote into `folder`.
    pub async fn run(
        &self,
        (work, params): (&Work, ServiceParams),
        (input, folder): (PathBuf, &Path),
        live: &LeaseWatch,
        on_progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<PathBuf, StepError> {
        let ServiceParams::Transcode(params) = params else {
            return Err(StepError::failed(
                "input_invalid",
                "this agent does not run that service",
            ));
        };
        let defaults = Limits::default();
        let bench = Workbench {
            tools: self.tools.clone(),
            folder: folder.to_owned(),
            limits: Limits {
                run_time: Duration::from_secs(work.limits.max_run_seconds).min(defaults.run_time),
                file_bytes: work.output.max_bytes.min(defaults.file_bytes),
                ..defaults
            },
            // A child of the lease's signal, so that the end of the lease can be told apart.
            stop: live.stop.child_token(),
        };
        let job = TranscodeJob {
            input,
            videotoolbox_proven: self.has_videotoolbox(&params),
            params,
            max_output_seconds: work.limits.max_output_seconds,
        };
        let transcode = fencepost_media::transcode(&bench, &job, on_progress);
        tokio::pin!(transcode);
        let done = tokio::select! {
            done = &mut transcode => done,
            () = live.ended() => {
                bench.stop.cancel();
                transcode.await
            }
        };
        done.map(|output| output.file).map_err(step_error)
    }

    fn has_videotoolbox(&self, params: &TranscodeParams) -> bool {
        let word = format!("videotoolbox.{}", params.codec.as_str());
        self.proven.contains(&Capability::new(word))
    }
}

/// Reads the parameters of an offer once more: what the gateway let through, we need not believe.
pub fn check_params(work: &Work) -> Result<ServiceParams, StepError> {
    let unknown = || StepError::failed("input_invalid", "the service is not known to this agent");
    let service = ServiceName::parse(&work.service).ok_or_else(unknown)?;
    ServiceParams::parse(service, &work.params)
        .map_err(|error| StepError::failed("input_invalid", error.within("params").to_string()))
}

fn step_error(failure: MediaFailure) -> StepError {
    match failure {
        MediaFailure::Stopped => StepError::Stopped,
        MediaFailure::Failed { code, message } => StepError::failed(code.as_str(), message),
    }
}
