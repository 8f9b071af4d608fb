//! The services that this agent runs, on top of the media crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_domain::field::FieldError;
use fencepost_domain::matcher::input_url_word;
use fencepost_domain::service::{Capability, InputForm, ServiceName, ServiceParams};
use fencepost_domain::sha256;
use fencepost_media::{
    Job, Limits, MediaFailure, Overrides, Progress, Roster, StopSignal, Tools, Workbench,
};
use fencepost_protocol::InputGrant;

use crate::core::Work;
use crate::transfer::{LeaseWatch, StepError};

/// What this machine can run: its FFmpeg, and what that FFmpeg has proven.
#[derive(Debug, Clone)]
pub struct Runner {
    tools: Tools,
    proven: BTreeSet<Capability>,
}

impl Runner {
    /// Finds FFmpeg, and what renders Remotion bundles if that was asked for, and tries them in
    /// `folder`, which takes a few seconds. From then on their children are entered in `roster`.
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
        if let Some(remotion) = &tools.remotion {
            tracing::info!(
                renderer = remotion.version,
                node = %remotion.node.display(),
                browser = %remotion.browser.display(),
                wall = remotion.wall.describe(),
                "Remotion found, and is tried now"
            );
        }
        let proven = fencepost_media::capabilities(&bench).await;
        tracing::info!(
            ffmpeg = %tools.ffmpeg.display(),
            version = tools.version,
            isolation = tools.isolation.describe(),
            "FFmpeg found and tried"
        );
        Ok(Self { tools, proven })
    }

    /// What was proven, and what needs no proof.
    pub fn capabilities(&self) -> Vec<Capability> {
        let proven = self.proven.iter().cloned();
        proven.chain([input_url_word()]).collect()
    }

    /// Runs the service on the inputs, given by name, and gives the file it wrote into `folder`.
    pub async fn run(
        &self,
        (work, params): (&Work, ServiceParams),
        (inputs, folder): (BTreeMap<String, PathBuf>, &Path),
        live: &LeaseWatch,
        on_progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<PathBuf, StepError> {
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
        let job = Job {
            params,
            inputs,
            max_output_seconds: work.limits.max_output_seconds,
            proven: self.proven.clone(),
        };
        let running = fencepost_media::run(&bench, &job, on_progress);
        tokio::pin!(running);
        let done = tokio::select! {
            done = &mut running => done,
            () = live.ended() => {
                bench.stop.cancel();
                running.await
            }
        };
        done.map(|output| output.file).map_err(step_error)
    }
}

/// Reads the parameters and the inputs' names of an offer once more: what the gateway let through, we
/// need not believe.
pub fn check_order(work: &Work) -> Result<ServiceParams, StepError> {
    let unknown = || StepError::failed("input_invalid", "the service is not known to this agent");
    let service = ServiceName::parse(&work.service).ok_or_else(unknown)?;
    let refused = |error: FieldError| StepError::failed("input_invalid", error.to_string());
    let params = ServiceParams::parse(service, &work.params)
        .map_err(|error| refused(error.within("params")))?;
    let names: Vec<_> = work
        .inputs
        .iter()
        .map(|input| input.name.as_str())
        .collect();
    params.check_inputs(&names).map_err(refused)?;
    for input in &work.inputs {
        if service.form_of_input(&input.name) == Some(InputForm::Bundle) {
            check_bundle(input).map_err(refused)?;
        }
    }
    Ok(params)
}

/// Whether the offer of a bundle says every byte of it.
fn check_bundle(input: &InputGrant) -> Result<(), FieldError> {
    let complaint = |field: &str, problem: String| {
        Err(FieldError::new(
            format!("inputs.{}.{field}", input.name),
            problem,
        ))
    };
    if !input.is_elsewhere() {
        let problem = "is missing: a bundle is given by the address of its manifest";
        return complaint("url", problem.to_owned());
    }
    let digest = input.sha256.as_deref();
    if digest.and_then(sha256::parse).is_none() {
        let problem = format!(
            "must be the SHA-256 of the bundle's manifest, {}",
            sha256::EXPECTED
        );
        return complaint("sha256", problem);
    }
    Ok(())
}

fn step_error(failure: MediaFailure) -> StepError {
    match failure {
        MediaFailure::Stopped => StepError::Stopped,
        MediaFailure::Failed { code, message } => StepError::failed(code.as_str(), message),
    }
}
