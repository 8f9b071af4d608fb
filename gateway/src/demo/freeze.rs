//! A Mac that stands still in the middle of its work, as one whose lid was closed: the agent and
//! every encoder that it started. They keep their memory, their files and their lease file, and
//! know nothing of the time that passes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::error::DemoError;
use super::processes::{self, Process, signal, signal_group};
use super::wait::until;

/// A stopped agent with its children. Ending the demo ends them too, thawed or not.
#[derive(Debug)]
pub(super) struct Frozen {
    agent: i32,
    children: Vec<Process>,
}

impl Frozen {
    /// Stops the agent first, so that it cannot start anything meanwhile, then the groups of its
    /// children, and waits until all of them stand still.
    pub(super) async fn freeze(agent: i32) -> Result<Self, DemoError> {
        signal(agent, Signal::STOP);
        let children = processes::descendants(agent)?;
        for group in processes::groups(&children) {
            signal_group(group, Signal::STOP);
        }
        let frozen = Self { agent, children };
        let all_stopped = async || Ok(frozen.stands_still()?.then_some(()));
        until(
            "the frozen Mac's processes stop",
            Duration::from_secs(5),
            all_stopped,
        )
        .await?;
        Ok(frozen)
    }

    /// Lets the children go on, and then the agent.
    pub(super) fn thaw(&self) {
        for group in processes::groups(&self.children) {
            signal_group(group, Signal::CONT);
        }
        signal(self.agent, Signal::CONT);
    }

    /// What the agent had started: the encoders.
    pub(super) fn children(&self) -> &[Process] {
        &self.children
    }

    /// The children that still exist.
    pub(super) fn living_children(&self) -> Result<Vec<i32>, DemoError> {
        let all = processes::all()?;
        let lives = |child: &&Process| {
            // A number that was given to somebody else meanwhile is in another group.
            all.iter()
                .any(|now| now.id == child.id && now.group == child.group)
        };
        Ok(self
            .children
            .iter()
            .filter(lives)
            .map(|child| child.id)
            .collect())
    }

    /// Whether every one of them is stopped.
    pub(super) fn stands_still(&self) -> Result<bool, DemoError> {
        let all = processes::all()?;
        let ids = self
            .children
            .iter()
            .map(|child| child.id)
            .chain([self.agent]);
        let stopped = |id| all.iter().any(|now| now.id == id && now.is_stopped());
        Ok(ids.into_iter().all(stopped))
    }
}

/// The unfinished output in an attempt's private folder, and how large it is by now.
pub(super) fn unfinished(work: &Path) -> Option<(PathBuf, u64)> {
    let entries = std::fs::read_dir(work).ok()?;
    let outputs = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let is_output = path.file_stem().is_some_and(|stem| stem == "output");
        let size = path.metadata().ok()?.len();
        (is_output && size > 0).then_some((path, size))
    });
    outputs.max_by_key(|(_, size)| *size)
}
