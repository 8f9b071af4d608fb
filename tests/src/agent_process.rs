//! The real agent as a child process, and what can be seen of it from outside.

use std::io::{Seek as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{Process, program, run};
use crate::wait::{PATIENCE, until, until_some, until_some_within};

/// A real agent: its state folder, and its process once it was started.
pub struct AgentProcess {
    state: TempDir,
    process: Option<Process>,
    arguments: Vec<String>,
}

impl AgentProcess {
    /// An agent that was paired by its own command, at this address, with this code.
    pub async fn paired(url: &str, code: &str, name: &str) -> Self {
        let state = tempfile::tempdir().expect("a folder can be made");
        let folder = state.path().to_str().expect("a plain path").to_owned();
        let output = run(
            "fencepost-agent",
            &[
                "pair",
                "--gateway",
                url,
                "--state-dir",
                &folder,
                "--name",
                name,
            ],
            &[("FENCEPOST_ENROLLMENT_CODE", code)],
        )
        .await;
        assert!(output.status.success(), "{output:?}");
        Self {
            state,
            process: None,
            arguments: Vec::new(),
        }
    }

    /// The same with more arguments for `run`, such as `--ffmpeg`.
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts it, logging everything.
    pub fn start(&mut self) {
        let mut command = Command::new(program("fencepost-agent"));
        command
            .args(["run", "--log", "text", "--state-dir"])
            .arg(self.state.path())
            .args(&self.arguments)
            // Somebody leans on the keyboard; FFmpeg would take it for commands.
            .stdin(keys_pressed())
            .env("RUST_LOG", "trace")
            // Object stores of tests are on this machine.
            .env("FENCEPOST_AGENT_EGRESS_ALLOW_CIDRS", "127.0.0.0/8");
        self.process = Some(Process::start(&mut command, &self.path("log.txt")));
    }

    /// Its process, which must have been started.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it was started")
    }

    /// A file or folder in its state folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.state.path().join(name)
    }

    /// Everything it has printed.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// The secret in its credential file.
    pub fn device_token(&self) -> String {
        let bytes = std::fs::read(self.path("device.json")).expect("it was paired");
        let file: Value = serde_json::from_slice(&bytes).expect("it is JSON");
        file["device_token"].as_str().expect("a text").to_owned()
    }

    /// The leases in its outbox.
    pub fn leases(&self) -> Vec<Value> {
        let Ok(entries) = std::fs::read_dir(self.path("leases")) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| std::fs::read(entry.ok()?.path()).ok())
            .filter_map(|bytes| serde_json::from_slice(&bytes).ok())
            .collect()
    }

    /// Waits for the first lease in its outbox that is as wanted.
    pub async fn lease(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        until_some(what, || async {
            self.leases().into_iter().find(|lease| wanted(lease))
        })
        .await
    }

    /// Waits until it has tried what it can do, and said so to its gateway. Where it tries a browser too,
    /// that takes a while.
    pub async fn is_connected(&self) {
        let look = || async {
            let status = std::fs::read(self.path("status.json")).ok()?;
            let status: Value = serde_json::from_slice(&status).ok()?;
            (status["state"] == "connected").then_some(())
        };
        until_some_within(4 * PATIENCE, "a connected agent", look).await;
    }

    /// Waits until it does nothing: no child, no workspace, no lease.
    pub async fn is_idle(&mut self) {
        let process = self.process.as_ref().expect("it was started");
        until("an idle agent", || async {
            let workspaces = std::fs::read_dir(self.state.path().join("work"));
            process.descendants().is_empty()
                && self.leases().is_empty()
                && workspaces.is_ok_and(|mut entries| entries.next().is_none())
        })
        .await;
    }
}

/// A file full of the key that ends FFmpeg.
fn keys_pressed() -> Stdio {
    let mut file = tempfile::tempfile().expect("a file can be made");
    file.write_all(&[b'q'; 4096]).expect("it can be written");
    file.rewind().expect("it can be rewound");
    file.into()
}
