//! `transcode.v1`: probe the source, encode it, check what came out.
//!
//! Exit status 0 of an encoder is not success: FFmpeg also exits with 0 for a source that was cut,
//! and leaves a playable half of a file when it is stopped. So the output is checked like the
//! verifier checks it, and whatever is not handed to the caller is deleted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use fencepost_domain::service::TranscodeParams;
use fencepost_domain::service::transcode::{Audio, Hardware};

use crate::arguments::Plan;
use crate::child::{self, ChildSpec, Stdout};
use crate::exit::{not_started, require_success};
use crate::judge::LENGTH_SLACK_SECONDS;
use crate::progress::{Meter, OnProgress, Stage};
use crate::{
    CheckFailure, Checked, Encoder, Expectation, FailureCode, MediaFailure, Probe, Rejection,
    Workbench, check_output, probe,
};

/// One transcode. Its output is written into the workbench's folder.
#[derive(Debug, Clone)]
pub struct TranscodeJob {
    /// The source, an absolute path.
    pub input: PathBuf,
    /// What to make of it.
    pub params: TranscodeParams,
    /// The longest output that was sold, in seconds.
    pub max_output_seconds: u32,
    /// Whether this machine has proven VideoToolbox for this codec.
    pub videotoolbox_proven: bool,
}

impl TranscodeJob {
    /// Name of the output within the workbench's folder. An older file of that name, which can
    /// only be our own, is overwritten.
    pub fn output_name(&self) -> String {
        format!("output.{}", self.params.codec.extension())
    }
}

/// A finished transcode.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The file. From here on the caller's to delete.
    pub file: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// What it is.
    pub checked: Checked,
    /// Which encoder wrote it.
    pub encoder: Encoder,
}

/// Runs one transcode. Whenever it does not return an output, also when the future is dropped, the
/// output file does not exist.
pub async fn transcode(
    bench: &Workbench,
    job: &TranscodeJob,
    on_progress: OnProgress<'_>,
) -> Result<Output, MediaFailure> {
    let source = probe(bench, &job.input).await?;
    require_affordable(&source, job)?;
    let partial = Partial::new(bench.folder.join(job.output_name()));
    // A second try starts over, but the percentage shown does not.
    let highest = AtomicU8::new(0);
    let on_progress: OnProgress<'_> = &|mut progress| {
        progress.percent = progress
            .percent
            .map(|now| highest.fetch_max(now, Ordering::Relaxed).max(now));
        on_progress(progress);
    };
    let encoder = encode_somehow(bench, job, &source, on_progress).await?;
    let size_bytes = match tokio::fs::metadata(&partial.path).await {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = "FFmpeg said that it succeeded and wrote nothing";
            return Err(MediaFailure::new(FailureCode::RunnerFailed, what));
        }
        Err(error) => return Err(MediaFailure::io("the output cannot be read", &error)),
    };
    let expectation = Expectation {
        params: &job.params,
        source: Some(&source),
        max_output_seconds: job.max_output_seconds,
    };
    let checked = check_output(bench, &partial.path, &expectation, on_progress)
        .await
        .map_err(whose_fault)?;
    if bench.stop.is_cancelled() {
        return Err(MediaFailure::Stopped);
    }
    Ok(Output {
        file: partial.keep(),
        size_bytes,
        checked,
        encoder,
    })
}

/// Refuses, before anything is decoded, a source that is longer than what was sold.
fn require_affordable(source: &Probe, job: &TranscodeJob) -> Result<(), MediaFailure> {
    let most = f64::from(job.max_output_seconds);
    match source.expected_seconds(job.params.audio == Audio::Keep) {
        Some(length) if length > most + LENGTH_SLACK_SECONDS / 2.0 => Err(MediaFailure::new(
            FailureCode::InputInvalid,
            format!("the source is {length:.2} s long, and at most {most} s were asked for"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// Encodes with the encoder of choice. When VideoToolbox fails although it was proven, that is the
/// machine's fault; where the buyer left the choice to us, software takes over.
async fn encode_somehow(
    bench: &Workbench,
    job: &TranscodeJob,
    source: &Probe,
    on_progress: OnProgress<'_>,
) -> Result<Encoder, MediaFailure> {
    let encoder = Encoder::choose(&job.params, job.videotoolbox_proven)?;
    let failure = match encode(bench, job, source, encoder, on_progress).await {
        Ok(()) => return Ok(encoder),
        Err(failure) => failure,
    };
    match (encoder, failure) {
        (
            Encoder::VideoToolbox(codec),
            MediaFailure::Failed {
                code: FailureCode::RunnerFailed,
                message,
            },
        ) => {
            if job.params.hardware == Hardware::Require {
                return Err(MediaFailure::new(FailureCode::DeviceFault, message));
            }
            tracing::warn!(message, "VideoToolbox failed, encoding in software");
            let software = Encoder::Software(codec);
            encode(bench, job, source, software, on_progress)
                .await
                .map(|()| software)
        }
        (_, failure) => Err(failure),
    }
}

async fn encode(
    bench: &Workbench,
    job: &TranscodeJob,
    source: &Probe,
    encoder: Encoder,
    on_progress: OnProgress<'_>,
) -> Result<(), MediaFailure> {
    let plan = Plan::new(
        source,
        &job.params,
        encoder,
        bench.tools.tone_maps,
        job.max_output_seconds.saturating_add(2),
    )?;
    let spec = ChildSpec {
        program: &bench.tools.ffmpeg,
        args: plan.arguments(&job.input, &bench.folder.join(job.output_name())),
        folder: &bench.folder,
        limits: bench.work_limits(),
        isolation: &bench.tools.isolation,
        roster: bench.tools.roster.as_ref(),
    };
    let expected = source.expected_seconds(job.params.audio == Audio::Keep);
    let mut meter = Meter::new(Stage::Encoding, expected, on_progress);
    let finished = child::run(
        spec,
        Stdout::Lines(&mut |line| meter.line(line)),
        &bench.stop,
    )
    .await
    .map_err(|error| not_started("ffmpeg", &error))?;
    require_success("encoding", &finished, &bench.folder)
}

/// A wrong output is the source's fault if it is the source that ended early or went on for too
/// long; otherwise the encoder's.
fn whose_fault(failure: CheckFailure) -> MediaFailure {
    match failure {
        CheckFailure::Stopped => MediaFailure::Stopped,
        CheckFailure::Trouble(message) => MediaFailure::new(FailureCode::DeviceFault, message),
        CheckFailure::Rejected(rejection) => {
            let code = match rejection {
                Rejection::Duration { .. } | Rejection::TooLong { .. } => FailureCode::InputInvalid,
                Rejection::Empty
                | Rejection::NotMedia(_)
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
struct Partial {
    path: PathBuf,
    kept: bool,
}

impl Partial {
    fn new(path: PathBuf) -> Self {
        Self { path, kept: false }
    }

    fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }

    fn delete(path: &Path) {
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a partial output could not be deleted");
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            Self::delete(&self.path);
        }
    }
}
