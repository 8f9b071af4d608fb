//! Looks at the machine: room on the disk, and children of earlier work that are still there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fencepost_media::Roster;

use crate::core::Room;
use crate::reserve::Reserve;

/// How long the start may wait for killed children to go.
const STRAYS_TIME: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// With less than this free, the reserve is not filled again.
const TIGHT_BYTES: u64 = 8 << 20;

/// What the agent knows about the machine it runs on.
#[derive(Debug)]
pub struct Machine {
    work_folder: PathBuf,
    roster: Roster,
    reserve: Reserve,
}

impl Machine {
    /// This machine, as seen by an agent that works in this folder.
    pub fn new(work_folder: PathBuf, roster: Roster, reserve: Reserve) -> Self {
        Self {
            work_folder,
            roster,
            reserve,
        }
    }

    /// Ends what an earlier run of the agent left running. What does not go away in time is seen by
    /// every later [`Machine::look`].
    ///
    /// # Errors
    /// The file system's.
    pub async fn end_earlier_run(&self) -> io::Result<()> {
        self.roster.take_over()?;
        let deadline = Instant::now() + STRAYS_TIME;
        while self.roster.end_leftovers()? > 0 {
            if Instant::now() >= deadline {
                tracing::error!("a child of an earlier run cannot be ended; no work until it is");
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// How it looks now. Also ends strays, and fills the reserve again once there is room.
    pub fn look(&self) -> Room {
        let free_bytes = free_bytes(&self.work_folder)
            .inspect_err(|error| tracing::warn!(%error, "free space is not known"))
            .ok();
        if free_bytes.is_some_and(|free| free >= TIGHT_BYTES) {
            self.reserve.fill();
        }
        let strays = self.roster.end_leftovers().unwrap_or_else(|error| {
            tracing::warn!(%error, "leftovers are not known");
            0
        });
        Room {
            free_bytes,
            used_bytes: used_bytes(&self.work_folder),
            strays,
        }
    }
}

/// Bytes that we may still write below `folder`.
pub(crate) fn free_bytes(folder: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(folder)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Bytes that files below `folder` hold; what cannot be read counts as nothing.
fn used_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => used_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_that_of_the_file_system_and_used_space_that_of_all_files_below() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("a")).unwrap();
        fs::write(temp.path().join("a/b"), [0; 1_000]).unwrap();
        fs::write(temp.path().join("c"), [0; 10]).unwrap();
        assert_eq!(used_bytes(temp.path()), 1_010);
        assert!(free_bytes(temp.path()).unwrap() > 0);
        assert!(free_bytes(&temp.path().join("missing")).is_err());
        assert_eq!(used_bytes(&temp.path().join("missing")), 0);
    }
}
