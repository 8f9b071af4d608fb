//! A program that the demo starts and certainly ends.
//!
//! Each leads a process group of its own: Ctrl-C in a terminal goes to the demo alone, which then
//! ends the others in order, also those that it had frozen.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{Child as TokioChild, Command};

use super::error::DemoError;
use super::processes;

/// Variables with this beginning would change what our own programs do.
const OURS: &str = "FENCEPOST_";

/// A running program. Dropping it ends it and all that it started, at once.
#[derive(Debug)]
pub(super) struct Child {
    name: &'static str,
    process: Option<TokioChild>,
    log: PathBuf,
}

impl Child {
    /// Starts `command` with its output in `log`.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        log: PathBuf,
    ) -> Result<Self, DemoError> {
        let out = File::options().create(true).append(true).open(&log)?;
        let err = out.try_clone()?;
        let process = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(|error| DemoError::stuck(format!("{name} cannot be started: {error}")))?;
        Ok(Self {
            name,
            process: Some(process),
            log,
        })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// What it has printed.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id; an error if it has ended, which none of ours should by itself.
    pub(super) fn id(&mut self) -> Result<i32, DemoError> {
        let ended = match &mut self.process {
            Some(process) => process.try_wait()?,
            None => None,
        };
        let id = self.process.as_ref().and_then(TokioChild::id);
        match id.and_then(|id| i32::try_from(id).ok()) {
            Some(id) if ended.is_none() => Ok(id),
            _ => {
                let how =
                    ended.map_or_else(|| "was stopped".to_owned(), |status| status.to_string());
                Err(DemoError::stuck(format!("{} has ended ({how})", self.name)))
            }
        }
    }

    /// Asks it to end, and ends it by force if it has not after `patience`. Says whether it ended
    /// by itself, and well.
    pub(super) async fn stop(mut self, patience: Duration) -> bool {
        let Ok(id) = self.id() else {
            return false;
        };
        processes::signal(id, Signal::TERM);
        let Some(process) = &mut self.process else {
            return false;
        };
        let ended = tokio::time::timeout(patience, process.wait()).await;
        matches!(ended, Ok(Ok(status)) if status.success())
        // Dropped here, with whatever is left of it.
    }

    /// Leaves it running.
    pub(super) fn leave(mut self) {
        self.process = None;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // No number means that it has been waited for.
        if let Some(id) = process.id().and_then(|id| i32::try_from(id).ok()) {
            processes::kill_family(id);
            // It is dying: this takes no time. Afterwards nobody uses its files any more.
            while let Ok(None) = process.try_wait() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// A command without variables that would change what it does, and with its temporary files where
/// they are removed with everything else.
pub(super) fn command(program: &Path, temporary: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(OURS) {
            command.env_remove(name);
        }
    }
    command.env("TMPDIR", temporary).env_remove("RUST_LOG");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(folder: &Path, trap: &str) -> Child {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{trap} echo up; sleep 60 & wait"));
        Child::start("the sleeper", command, folder.join("log")).unwrap()
    }

    async fn up(child: &Child) {
        while !child.log().contains("up") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn who_does_not_want_to_end_is_ended_with_all_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = sleeper(folder.path(), "trap '' TERM;");
        up(&child).await;
        let id = child.id().unwrap();
        let family = processes::descendants(id).unwrap();
        assert_eq!(family.len(), 1);
        assert!(!child.stop(Duration::from_millis(100)).await);
        let all = processes::all().unwrap();
        assert!(!all.iter().any(|process| process.group == id), "{all:?}");
    }

    #[tokio::test]
    async fn a_frozen_one_ends_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = sleeper(folder.path(), "");
        up(&child).await;
        let id = child.id().unwrap();
        processes::signal_group(id, Signal::STOP);
        drop(child);
        let all = processes::all().unwrap();
        assert!(!all.iter().any(|process| process.group == id), "{all:?}");
    }
}
