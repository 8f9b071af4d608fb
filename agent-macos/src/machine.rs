//! Looks at the machine: room on the disk, and children of earlier work that are still there.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fencepost_media::Roster;
use fencepost_media::disk::{free_bytes, used_bytes};

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
