//! What the tests share: this machine's tools, a private folder each, clips.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_media::fixture::{self, Clip};
use fencepost_media::{
    FailureCode, Job, Limits, MediaFailure, Output, Overrides, Progress, StopSignal, Tools,
    Workbench, run,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::OnceCell;

pub(crate) async fn tools() -> Tools {
    static TOOLS: OnceCell<Tools> = OnceCell::const_new();
    TOOLS
        .get_or_init(|| async { Tools::find(&Overrides::default()).await.expect("FFmpeg") })
        .await
        .clone()
}

/// A folder for sources and a workbench in a folder of its own; both go with the kit.
pub(crate) struct Kit {
    pub(crate) bench: Workbench,
    pub(crate) sources: TempDir,
    _work: TempDir,
}

impl Kit {
    pub(crate) async fn new() -> Self {
        let work = TempDir::new().expect("a work folder");
        let bench = Workbench {
            tools: tools().await,
            folder: work.path().to_owned(),
            limits: Limits::default(),
            stop: StopSignal::new(),
        };
        Self {
            bench,
            sources: TempDir::new().expect("a source folder"),
            _work: work,
        }
    }

    pub(crate) fn source(&self, name: &str) -> PathBuf {
        self.sources.path().join(name)
    }

    /// The base clip of so many seconds, or of another shape.
    pub(crate) async fn clip(&self, name: &str, clip: Clip) -> PathBuf {
        let file = self.source(name);
        clip.write(&self.bench.tools, &file).await.expect("a clip");
        file
    }

    pub(crate) async fn base(&self, seconds: u32) -> PathBuf {
        self.clip("base.mp4", Clip::base(seconds)).await
    }

    /// A clip made with arguments of the test's own.
    pub(crate) async fn make(&self, name: &str, args: &[&str]) -> PathBuf {
        let file = self.source(name);
        fixture::ffmpeg(&self.bench.tools, args, &file)
            .await
            .expect("a clip");
        file
    }

    /// The first `part` of `file`.
    pub(crate) fn cut(&self, file: &Path, part: f64, name: &str) -> PathBuf {
        let bytes = std::fs::read(file).expect("a clip");
        let cut = self.source(name);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a part of a small clip"
        )]
        let keep = (bytes.len() as f64 * part) as usize;
        std::fs::write(&cut, &bytes[..keep]).expect("a cut clip");
        cut
    }

    pub(crate) async fn run(&self, input: &Path, params: Value) -> Result<Output, MediaFailure> {
        run(&self.bench, &job(input, &params), &|_| ()).await
    }

    pub(crate) async fn run_noting(
        &self,
        input: &Path,
        params: Value,
    ) -> (Result<Output, MediaFailure>, Vec<Progress>) {
        let seen = Mutex::new(Vec::new());
        let note = |progress| seen.lock().unwrap().push(progress);
        let result = run(&self.bench, &job(input, &params), &note).await;
        (result, seen.into_inner().unwrap())
    }

    pub(crate) fn work_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.bench.folder).expect("the work folder");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }
}

/// A transcode of this source.
pub(crate) fn job(input: &Path, params: &Value) -> Job {
    job_of("transcode.v1", &[("source", input)], params)
}

/// A job of any service.
pub(crate) fn job_of(service: &str, inputs: &[(&str, &Path)], params: &Value) -> Job {
    let service = ServiceName::parse(service).expect("a service");
    let params = ServiceParams::parse(service, params).expect("parameters that are allowed");
    let names: Vec<_> = inputs.iter().map(|(name, _)| *name).collect();
    params
        .check_inputs(&names)
        .expect("inputs that are allowed");
    let inputs = inputs.iter();
    Job {
        params,
        inputs: inputs
            .map(|(name, file)| ((*name).to_owned(), (*file).to_owned()))
            .collect(),
        max_output_seconds: 60,
        proven: BTreeSet::new(),
    }
}

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, MediaFailure>) -> FailureCode {
    result
        .expect_err("this must fail")
        .code()
        .expect("a failure, not a stop")
}

/// A program that stands in for FFmpeg.
pub(crate) fn stand_in(folder: &Path, name: &str, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;

    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    file
}

/// What a bundle has at least.
pub(crate) fn empty_bundle(folder: &Path) {
    for name in ["index.html", "bundle.js"] {
        std::fs::write(folder.join(name), "").expect("a file of a bundle");
    }
}

/// Whether a process still runs. A zombie does not.
pub(crate) fn is_running(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != "Z")
}

/// Whether nothing is left of a process, not even a zombie.
pub(crate) fn is_reaped(pid: i32) -> bool {
    state(pid).is_none()
}

fn state(pid: i32) -> Option<String> {
    let output = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output()
        .expect("ps");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.chars().next().map(String::from)
}

/// Waits until a file holds a number, and gives it.
pub(crate) async fn pid_in(file: &Path) -> i32 {
    for _ in 0..1_000 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Ok(pid) = text.trim().parse() {
            return pid;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no process id appeared");
}

/// Waits for something to become true: far longer than it takes, so that a busy machine fails no test.
pub(crate) async fn soon(mut holds: impl FnMut() -> bool) -> bool {
    for _ in 0..1_000 {
        if holds() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}
