//! Ends what a renderer leaves behind.
//!
//! Node starts the browser in a session of its own, so the process group that a child leads does not
//! hold it. But every process has the environment that it was started with, and hands it on: what has
//! the name of our folder in it is ours, whoever its parent is by now.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::processes::{MARK, marked_with};

/// New processes may come up while old ones are ended.
const ROUNDS: usize = 20;

/// Whatever runs with the mark of a folder.
#[derive(Debug)]
pub(super) struct Strays(PathBuf);

impl Strays {
    pub(super) fn of(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The mark, as a word for `env`.
    pub(super) fn mark(&self) -> OsString {
        let mut word = OsString::from(MARK);
        word.push(&self.0);
        word
    }

    /// Ends them all.
    pub(super) fn end(&self) {
        for _ in 0..ROUNDS {
            let found = match marked_with(&self.0) {
                Ok(found) if found.is_empty() => return,
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(%error, "what a renderer left cannot be looked for");
                    return;
                }
            };
            for pid in found.into_iter().filter_map(Pid::from_raw) {
                // An error means that it has just gone.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        tracing::warn!("a killed process of a renderer does not go away");
    }
}
