//! One "Mac": a real agent with a state folder of its own, paired as any other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::child::{self, Child};
use super::control::{Control, answer};
use super::error::DemoError;
use super::wait::until;

/// An agent proves its encoders before it connects, which takes a slow machine some seconds.
const CONNECT_TIME: Duration = Duration::from_mins(1);

/// An agent, running or not.
#[derive(Debug)]
pub(super) struct Mac {
    name: &'static str,
    program: PathBuf,
    control: Control,
    state_dir: PathBuf,
    agent: Option<Child>,
}

impl Mac {
    /// Turns an enrollment code into a paired agent that does not run yet. The code goes through
    /// stdin: arguments are everybody's to read.
    pub(super) async fn pair(
        name: &'static str,
        program: &Path,
        control: &Control,
        gateway: &str,
        code: &str,
    ) -> Result<Self, DemoError> {
        let folder = name.to_lowercase().replace(' ', "-");
        let mac = Self {
            name,
            program: program.to_owned(),
            control: control.clone(),
            state_dir: control.root().join(folder),
            agent: None,
        };
        let mut command = mac.command("pair");
        command.args([
            "--gateway",
            gateway,
            "--name",
            name,
            "--code-file",
            "-",
            "--json",
        ]);
        answer(command, "fencepost-agent pair", Some(code)).await?;
        Ok(mac)
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Starts the agent.
    pub(super) fn start(&mut self) -> Result<(), DemoError> {
        let mut command = self.command("run");
        command.args(["--log", "json"]);
        let log = self
            .control
            .log(&self.name.to_lowercase().replace(' ', "-"));
        self.agent = Some(Child::start(self.name, command, log)?);
        Ok(())
    }

    /// Waits until the agent says that it is connected.
    pub(super) async fn connected(&mut self) -> Result<(), DemoError> {
        let what = format!("{} is connected", self.name);
        let connected = async || {
            self.id()?;
            let status = self.status().await?;
            Ok((status["status"]["state"] == "connected").then_some(()))
        };
        until(&what, CONNECT_TIME, connected).await
    }

    /// What `fencepost-agent status` says.
    pub(super) async fn status(&self) -> Result<Value, DemoError> {
        let mut command = self.command("status");
        command.arg("--json");
        answer(command, "fencepost-agent status", None).await
    }

    /// The agent's process id.
    pub(super) fn id(&mut self) -> Result<i32, DemoError> {
        match &mut self.agent {
            Some(agent) => agent.id(),
            None => Err(DemoError::stuck(format!("{} does not run", self.name))),
        }
    }

    /// The agent's log.
    pub(super) fn log(&self) -> String {
        self.agent.as_ref().map(Child::log).unwrap_or_default()
    }

    /// Asks the agent to end; true if it did so by itself.
    pub(super) async fn stop(&mut self, patience: Duration) -> bool {
        match self.agent.take() {
            Some(agent) => agent.stop(patience).await,
            None => true,
        }
    }

    /// Leaves the agent running.
    pub(super) fn leave(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.leave();
        }
    }

    fn command(&self, verb: &str) -> tokio::process::Command {
        let mut command = child::command(&self.program, &self.control.temporary());
        command.arg(verb).arg("--state-dir").arg(&self.state_dir);
        command
    }
}
