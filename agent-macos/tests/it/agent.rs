//! The agent's process, and what can be seen of it from outside.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde_json::Value;

use crate::gateway::{CODE, Gateway};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost-agent");

/// A state folder and perhaps a running agent. Dropping it kills the agent.
pub(crate) struct Agent {
    state: PathBuf,
    /// Removes the folder, unless it is somebody else's.
    _temp: Option<tempfile::TempDir>,
    child: Option<Child>,
    arguments: Vec<String>,
}

/// Runs the program to its end.
pub(crate) fn command(args: &[&str], code: Option<&str>) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .args(args)
        .stdin(Stdio::null())
        .env_remove("FENCEPOST_ENROLLMENT_CODE");
    if let Some(code) = code {
        command.env("FENCEPOST_ENROLLMENT_CODE", code);
    }
    command.output().unwrap()
}

impl Agent {
    /// Paired the real way, not running.
    pub(crate) async fn paired(gateway: &Gateway) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let state = temp.path().to_owned();
        Self::pair(gateway, state, Some(temp)).await
    }

    /// The same in a folder that there is already.
    pub(crate) async fn paired_in(gateway: &Gateway, state: &Path) -> Self {
        Self::pair(gateway, state.to_owned(), None).await
    }

    async fn pair(gateway: &Gateway, state: PathBuf, temp: Option<tempfile::TempDir>) -> Self {
        let folder = state.to_str().unwrap().to_owned();
        let address = gateway.address.clone();
        let paired = tokio::task::spawn_blocking(move || {
            command(
                &["pair", "--gateway", &address, "--state-dir", &folder],
                Some(CODE),
            )
        })
        .await
        .unwrap();
        assert!(paired.status.success(), "{paired:?}");
        Self {
            state,
            _temp: temp,
            child: None,
            arguments: Vec::new(),
        }
    }

    /// A second agent with a copy of this one's state folder, as a restored backup would be.
    pub(crate) fn copied(&self) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let state = temp.path().to_owned();
        fs::copy(self.path("device.json"), state.join("device.json")).unwrap();
        Self {
            state,
            _temp: Some(temp),
            child: None,
            arguments: self.arguments.clone(),
        }
    }

    /// The same with more arguments for `run`.
    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments
            .extend(arguments.iter().map(|&word| word.to_owned()));
        self
    }

    /// Runs with a stand-in for FFmpeg. The script may hand over to the real one, which is in
    /// `$FFMPEG`; the trials at the start are handed over, but for the slow codecs, without it.
    pub(crate) fn with_stand_in(self, script: &str) -> Self {
        let file = self.path("ffmpeg");
        stand_in(&file, script);
        self.with(&["--ffmpeg", file.to_str().unwrap()])
    }

    /// Paired and running.
    pub(crate) async fn running(gateway: &Gateway) -> Self {
        let mut agent = Self::paired(gateway).await;
        agent.start();
        agent
    }

    /// Starts it; its log goes to `log` in a file beside.
    pub(crate) fn start(&mut self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.log_file())
            .unwrap();
        let child = Command::new(PROGRAM)
            .args(["run", "--state-dir", self.folder()])
            .args(&self.arguments)
            .env("RUST_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub(crate) fn folder(&self) -> &str {
        self.state.to_str().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    fn log_file(&self) -> PathBuf {
        self.path("log.txt")
    }

    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        fs::File::open(self.log_file())
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    /// `status --json`.
    pub(crate) fn status(&self) -> Value {
        let output = command(&["status", "--json", "--state-dir", self.folder()], None);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Freezes or thaws the agent and the process groups of its children.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let children = self.children();
        kill_process(self.pid(), signal).unwrap();
        for child in children {
            kill_process_group(child, signal).unwrap();
        }
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill(&mut self) {
        for child in self.children() {
            kill_process_group(child, Signal::KILL).unwrap();
        }
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Kills it and lets its children live, as the system does when memory is short.
    pub(crate) fn kill_alone(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The children that are programs of their own, found by their parent's pid.
    pub(crate) fn children(&self) -> Vec<Pid> {
        let parent = self.child.as_ref().unwrap().id().to_string();
        let listing = Command::new("ps")
            .args(["-eo", "pid=,ppid=,stat="])
            .output()
            .unwrap();
        String::from_utf8(listing.stdout)
            .unwrap()
            .lines()
            .filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let ours = words[1] == parent && !words[2].starts_with('Z');
                ours.then(|| Pid::from_raw(words[0].parse().unwrap()).unwrap())
            })
            .collect()
    }

    /// Waits until it has ended by itself; gives whether it said it went well.
    pub(crate) async fn ended(&mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                self.child = None;
                return status.success();
            }
            assert!(
                Instant::now() < deadline,
                "the agent is still running\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The names in one of its folders.
    pub(crate) fn listing(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.state.join(folder)).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// The one lease file.
    pub(crate) fn lease_file(&self) -> Value {
        let names = self.listing("leases");
        assert_eq!(names.len(), 1, "{names:?}");
        let path: &Path = &self.path("leases").join(&names[0]);
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    /// Waits until no child and no workspace is left.
    pub(crate) async fn is_idle(&self, within: Duration) {
        let deadline = Instant::now() + within;
        while !self.children().is_empty() || !self.listing("work").is_empty() {
            assert!(Instant::now() < deadline, "still working\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Writes a stand-in for FFmpeg, see [`Agent::with_stand_in`].
pub(crate) fn stand_in(file: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;

    let real = real_program("ffmpeg");
    let text = format!(
        "#!/bin/sh\nFFMPEG={real}\ncase \"$*\" in\n\
         *duration=1*libx26[4]*|-version|*-filters) exec $FFMPEG \"$@\";;\n\
         *duration=1*|*trial.mkv*) exit 1;;\nesac\n{script}\n"
    );
    // Never written in place: a program that is running cannot be.
    let aside = file.with_extension("new");
    fs::write(&aside, text).unwrap();
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&aside, file).unwrap();
}

/// Where the real program is.
pub(crate) fn real_program(name: &str) -> String {
    let folders = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let found = found.into_iter().find(|file| file.is_file()).unwrap();
    found.to_str().unwrap().to_owned()
}

/// Hands everything over to the real FFmpeg.
pub(crate) const REAL: &str = "exec $FFMPEG \"$@\"";

/// Whether a process still runs. A zombie, which nobody may reap in a container, does not.
pub(crate) fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    match stat {
        Ok(stat) => !stat
            .rsplit_once(')')
            .unwrap()
            .1
            .trim_start()
            .starts_with('Z'),
        Err(_) if cfg!(target_os = "linux") => false,
        Err(_) => test_kill_process(pid).is_ok(),
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
