//! One piece of media work: make the output, check it like the verifier does, hand it over.
//!
//! Exit status 0 of FFmpeg is not success: it also exits with 0 for a source that was cut, and
//! leaves a playable half of a file when it is stopped. So the output is checked, and whatever is
//! not handed to the caller is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use fencepost_domain::service::{Capability, ServiceParams};

use crate::args::Args;
use crate::child::{self, ChildLimits, ChildSpec, Stdout};
use crate::clean::Names;
use crate::exit::{not_started, require_success};
use crate::progress::{Meter, OnProgress};
use crate::{
    CheckFailure, Checked, Encoder, Expectation, FailureCode, MediaFailure, Probe, Rejection,
    Sources, Workbench, check_output, probe, services,
};

/// One job. Its output is written into the workbench's folder.
#[derive(Debug, Clone)]
pub struct Job {
    /// The service and what to make of the inputs.
    pub params: ServiceParams,
    /// The inputs by name, absolute paths.
    pub inputs: BTreeMap<String, PathBuf>,
    /// The longest output that was sold, in seconds.
    pub max_output_seconds: u32,
    /// What this machine has proven.
    pub proven: BTreeSet<Capability>,
}

impl Job {
    /// Name of the output within the workbench's folder. An older file of that name, which can
    /// only be our own, is overwritten.
    pub fn output_name(&self) -> String {
        format!("output.{}", self.params.output_extension())
    }
}

/// A finished job.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The file. From here on the caller's to delete.
    pub file: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// What it is.
    pub checked: Checked,
    /// Which encoder wrote its picture, if one was encoded.
    pub encoder: Option<Encoder>,
}

/// What a service hands over to be checked.
pub(crate) struct Made {
    /// What it was made from, which says what it has to be.
    pub(crate) sources: Sources,
    /// Which encoder wrote its picture, if one was encoded.
    pub(crate) encoder: Option<Encoder>,
    /// Whether parts of the inputs were taken over unseen, so that damage in them is theirs.
    pub(crate) copied: bool,
}

/// A job at work: what every service needs.
pub(crate) struct Task<'a> {
    pub(crate) bench: &'a Workbench,
    pub(crate) job: &'a Job,
    /// Where the output goes.
    pub(crate) output: &'a Path,
    pub(crate) on_progress: OnProgress<'a>,
}

/// Runs one job. Whenever it does not return an output, also when the future is dropped, neither
/// the output file nor any other file of this job exists in the workbench's folder.
pub async fn run(
    bench: &Workbench,
    job: &Job,
    on_progress: OnProgress<'_>,
) -> Result<Output, MediaFailure> {
    let partial = Partial::new(bench.folder.join(job.output_name()));
    // A second try starts over, but the percentage shown does not.
    let highest = AtomicU8::new(0);
    let on_progress: OnProgress<'_> = &|mut progress| {
        progress.percent = progress
            .percent
            .map(|now| highest.fetch_max(now, Ordering::Relaxed).max(now));
        on_progress(progress);
    };
    let task = Task {
        bench,
        job,
        output: &partial.path,
        on_progress,
    };
    let made = services::make(&task).await?;
    let size_bytes = match tokio::fs::metadata(&partial.path).await {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = "FFmpeg said that it succeeded and wrote nothing";
            return Err(MediaFailure::new(FailureCode::RunnerFailed, what));
        }
        Err(error) => return Err(MediaFailure::io("the output cannot be read", &error)),
    };
    let expectation = Expectation::of(&job.params, &made.sources, job.max_output_seconds)
        .ok_or_else(|| invalid("this agent does not run that service"))?;
    let checked = check_output(bench, &partial.path, &expectation, on_progress)
        .await
        .map_err(|failure| whose_fault(failure, made.copied))?;
    if bench.stop.is_cancelled() {
        return Err(MediaFailure::Stopped);
    }
    Ok(Output {
        file: partial.keep(),
        size_bytes,
        checked,
        encoder: made.encoder,
    })
}

/// The file of an input.
pub(crate) fn file_of<'a>(
    inputs: &'a BTreeMap<String, PathBuf>,
    name: &str,
) -> Result<&'a Path, MediaFailure> {
    let file = inputs.get(name).map(PathBuf::as_path);
    file.ok_or_else(|| invalid(format!("the job has no input {name}")))
}

impl Task<'_> {
    /// The file of an input.
    pub(crate) fn file(&self, name: &str) -> Result<&Path, MediaFailure> {
        file_of(&self.job.inputs, name)
    }

    /// What an input is. A file that is no film and no sound is `input_invalid`, by its name.
    pub(crate) async fn probe(&self, name: &str) -> Result<Probe, MediaFailure> {
        let file = self.file(name)?;
        probe(self.bench, file)
            .await
            .map_err(|failure| failure.about(name))
    }

    /// Whether this machine has proven something.
    pub(crate) fn has_proven(&self, word: &str) -> bool {
        self.job.proven.contains(&Capability::new(word))
    }

    /// Encoding ends after so many seconds, to bound a source that is longer than it says.
    pub(crate) fn stop_after_seconds(&self) -> u32 {
        self.job.max_output_seconds.saturating_add(2)
    }

    /// Runs FFmpeg to its end; it must succeed.
    pub(crate) async fn ffmpeg(
        &self,
        what: &str,
        args: Args,
        meter: &mut Meter<'_>,
    ) -> Result<String, MediaFailure> {
        self.ffmpeg_after(what, args, meter, 0.0).await
    }

    /// The same, where for so many seconds more than usual nothing may move.
    pub(crate) async fn ffmpeg_after(
        &self,
        what: &str,
        args: Args,
        meter: &mut Meter<'_>,
        run_up: f64,
    ) -> Result<String, MediaFailure> {
        let mut limits = self.bench.work_limits();
        let more = Duration::try_from_secs_f64(run_up).unwrap_or_default();
        limits.no_progress = limits.no_progress.map(|longest| longest + more);
        let names = Names::of(&self.job.inputs);
        ffmpeg_within(self.bench, (what, &names), args, meter, limits).await
    }
}

/// Runs FFmpeg to its end, following its progress; it must succeed. Gives the end of what it said.
pub(crate) async fn ffmpeg(
    bench: &Workbench,
    what: &str,
    args: Args,
    meter: &mut Meter<'_>,
) -> Result<String, MediaFailure> {
    let limits = bench.work_limits();
    ffmpeg_within(bench, (what, &Names::default()), args, meter, limits).await
}

async fn ffmpeg_within(
    bench: &Workbench,
    (what, names): (&str, &Names),
    args: Args,
    meter: &mut Meter<'_>,
    limits: ChildLimits,
) -> Result<String, MediaFailure> {
    let spec = ChildSpec {
        program: &bench.tools.ffmpeg,
        args: args.0,
        folder: &bench.folder,
        limits,
        isolation: &bench.tools.isolation,
        roster: bench.tools.roster.as_ref(),
    };
    let mut follow = |line: &str| meter.line(line);
    let mut finished = child::run(spec, Stdout::Lines(&mut follow), &bench.stop)
        .await
        .map_err(|error| not_started("ffmpeg", &error))?;
    finished.stderr = names.instead_of_files(&finished.stderr);
    require_success(what, &finished, &bench.folder)?;
    Ok(finished.stderr)
}

/// A failure that is the inputs' fault.
pub(crate) fn invalid(message: impl Into<String>) -> MediaFailure {
    MediaFailure::new(FailureCode::InputInvalid, message)
}

/// A wrong output is the source's fault if it is the source that ended early or went on for too
/// long, or if what is damaged was copied from it; otherwise the encoder's.
fn whose_fault(failure: CheckFailure, copied: bool) -> MediaFailure {
    match failure {
        CheckFailure::Stopped => MediaFailure::Stopped,
        CheckFailure::Trouble(message) => MediaFailure::new(FailureCode::DeviceFault, message),
        CheckFailure::Rejected(rejection) => {
            let code = match rejection {
                Rejection::Duration { .. } | Rejection::TooLong { .. } => FailureCode::InputInvalid,
                Rejection::Undecodable(_) | Rejection::NotCompositions(_) if copied => {
                    FailureCode::InputInvalid
                }
                Rejection::Empty
                | Rejection::NotMedia(_)
                | Rejection::NotCompositions(_)
                | Rejection::Container { .. }
                | Rejection::Streams(_)
                | Rejection::Codec { .. }
                | Rejection::PictureSize { .. }
                | Rejection::FrameRate { .. }
                | Rejection::Undecodable(_) => FailureCode::RunnerFailed,
            };
            MediaFailure::new(
                code,
                format!("the output is not what it should be: {rejection}"),
            )
        }
    }
}

/// A file that is deleted unless it is kept.
pub(crate) struct Partial {
    pub(crate) path: PathBuf,
    kept: bool,
}

impl Partial {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, kept: false }
    }

    fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a partial output could not be deleted");
        }
    }
}
