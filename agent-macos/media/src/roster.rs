//! Running children, written down for whoever comes after us.
//!
//! If this process is killed, its encoders run on: they lead process groups of their own. So each
//! one is entered in a folder before it starts and crossed out when its group is gone, and the next
//! run of the program ends what it finds there. A child that cannot be ended (it hangs in the
//! kernel) stays entered, so that its owner can refuse new work until it is gone.
//!
//! ```text
//! <pid>-<n>.json   a child that we look after
//! <pid>-<n>.left   one that nobody looks after any more
//! ```
//!
//! Files are not synced to the disk: they must outlive this process, not the machine.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};

use crate::processes::{self, Process};

const LIVE: &str = "json";
const LEFT: &str = "left";

/// The folder in which children are entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    folder: PathBuf,
}

/// What one file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    /// Its arguments, joined by spaces: how a child is found that was started and not noted.
    arguments: String,
    /// Its working folder.
    folder: PathBuf,
    /// Which process it is; absent while it is being started.
    process: Option<Identity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    pid: i32,
    started: String,
}

/// One child's entry. It is crossed out with [`Entered::close`].
#[derive(Debug)]
pub(crate) struct Entered {
    path: PathBuf,
    entry: Entry,
}

impl Roster {
    /// The roster in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Takes over what an earlier run of this program left. Call it once, at the start and while no
    /// other run can be alive.
    ///
    /// # Errors
    /// The file system's.
    pub fn take_over(&self) -> io::Result<()> {
        for path in self.entries(LIVE)? {
            fs::rename(&path, path.with_extension(LEFT))?;
        }
        Ok(())
    }

    /// Kills children that nobody looks after, and answers how many are still there. Never touches a
    /// process that is not surely one of them. Call it again until it answers zero.
    ///
    /// # Errors
    /// The file system's; then nothing is known.
    pub fn end_leftovers(&self) -> io::Result<usize> {
        let left = self.entries(LEFT)?;
        if left.is_empty() {
            return Ok(0);
        }
        let running = processes::running()?;
        let mut still = 0;
        for path in left {
            let alive = match read(&path) {
                Ok(entry) => entry.kill(&running),
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "a child's entry is damaged");
                    false
                }
            };
            if alive {
                still += 1;
            } else {
                remove(&path);
            }
        }
        Ok(still)
    }

    /// Enters a child that is about to be started.
    pub(crate) fn enter(&self, arguments: &[OsString], folder: &Path) -> io::Result<Entered> {
        let words: Vec<_> = arguments
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let entry = Entry {
            arguments: words.join(" "),
            folder: folder.to_owned(),
            process: None,
        };
        let entered = Entered {
            path: self.unused_path(),
            entry,
        };
        entered.write()?;
        Ok(entered)
    }

    /// Not the path of an entry of an earlier run, whose process may have had our number.
    fn unused_path(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self
                .folder
                .join(format!("{}-{number}.{LIVE}", std::process::id()));
            if !path.exists() && !path.with_extension(LEFT).exists() {
                return path;
            }
        }
    }

    fn entries(&self, extension: &str) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|found| found == extension) {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}

impl Entered {
    /// The child runs: which process it is.
    pub(crate) fn started(&mut self, pid: i32) -> io::Result<()> {
        // One that has ended already leaves nothing to find.
        self.entry.process = processes::find(pid).map(|process| Identity {
            pid,
            started: process.started,
        });
        self.write()
    }

    /// Nobody looks after the child any more. Crossed out if nothing is left of its group; else it
    /// stays, to be ended by [`Roster::end_leftovers`].
    pub(crate) fn close(&self, group: Option<Pid>) {
        let gone = group.is_none_or(|group| test_kill_process_group(group).is_err());
        if gone {
            remove(&self.path);
        } else if let Err(error) = fs::rename(&self.path, self.path.with_extension(LEFT)) {
            tracing::error!(%error, "a child's entry could not be handed on");
        }
    }

    fn write(&self) -> io::Result<()> {
        // A reader may come only after our death, and then it must find a whole entry.
        let aside = self.path.with_extension("new");
        fs::write(&aside, serde_json::to_vec(&self.entry)?)?;
        fs::rename(&aside, &self.path)
    }
}

impl Entry {
    /// Kills what is left of the child; answers whether there was anything.
    fn kill(&self, running: &[Process]) -> bool {
        let (groups, single) = self.remains(running);
        for group in groups.iter().filter_map(|&pid| Pid::from_raw(pid)) {
            tracing::warn!(
                group = group.as_raw_nonzero(),
                "ending a child of earlier work"
            );
            // An error means that it has just gone.
            let _ = kill_process_group(group, Signal::KILL);
        }
        for pid in single.iter().filter_map(|&pid| Pid::from_raw(pid)) {
            tracing::warn!(
                pid = pid.as_raw_nonzero(),
                "ending a descendant of earlier work"
            );
            let _ = kill_process(pid, Signal::KILL);
        }
        !(groups.is_empty() && single.is_empty())
    }

    /// Process groups, and processes of groups whose leader is gone, that are surely ours.
    fn remains(&self, running: &[Process]) -> (Vec<i32>, Vec<i32>) {
        let (groups, mut single) = self.of_the_group(running);
        // What left the group took the mark of the work along.
        match processes::marked_with(&self.folder) {
            Ok(marked) => single.extend(marked),
            Err(error) => tracing::error!(%error, "marked processes cannot be looked for"),
        }
        (groups, single)
    }

    fn of_the_group(&self, running: &[Process]) -> (Vec<i32>, Vec<i32>) {
        let Some(process) = &self.process else {
            return (self.started_unnoted(running), Vec::new());
        };
        match running.iter().find(|found| found.pid == process.pid) {
            Some(found) if found.started == process.started => (vec![process.pid], Vec::new()),
            // The number has been given to a stranger, so the whole group is gone.
            Some(_) => (Vec::new(), Vec::new()),
            None => {
                let members = running.iter().filter(|found| found.group == process.pid);
                let ours = members.filter(|found| {
                    processes::folder_of(found.pid).is_some_and(|at| at.starts_with(&self.folder))
                });
                (Vec::new(), ours.map(|found| found.pid).collect())
            }
        }
    }

    /// We were killed between starting the child and noting which it is. Its arguments name its
    /// working folder, which no other process has any business with.
    fn started_unnoted(&self, running: &[Process]) -> Vec<i32> {
        let folder = self.folder.to_string_lossy();
        if folder.len() <= 1 || !self.arguments.contains(&*folder) {
            return Vec::new();
        }
        let same = running
            .iter()
            .filter(|found| found.group == found.pid && found.command.ends_with(&self.arguments));
        same.map(|found| found.group).collect()
    }
}

fn read(path: &Path) -> io::Result<Entry> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "a child's entry could not be removed");
    }
}

#[cfg(test)]
mod tests;
