//! What failed runs left, kept for a while so that somebody can find out why.
//!
//! Of a run that failed, only a bounded log is kept: `kept/<attempt_id>/run.log`. The buyer's files
//! are gone with the workspace. Whoever kept it deletes it when its time is over, whether a gateway
//! says so or not; the time that is left is told by the folder's own age, so that it goes on while
//! the agent does not run.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_domain::ids::AttemptId;
use fencepost_domain::text::clean;

use crate::state_dir::{StateDirError, io_at, write_lightly};

/// The longest log that is kept, in bytes.
const MAX_LOG_BYTES: usize = 64 * 1024;

/// The folder of what is kept.
#[derive(Debug, Clone)]
pub struct KeptRuns {
    folder: PathBuf,
}

impl KeptRuns {
    /// What is kept in `folder`, which exists.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps the log of a run.
    pub fn keep(&self, attempt: AttemptId, log: &str) -> Result<(), StateDirError> {
        let path = self.path(attempt);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| io_at(&path, error))?;
        write_lightly(&path.join("run.log"), clean(log, MAX_LOG_BYTES).as_bytes())
    }

    /// Deletes what was kept of a run; it may be gone already.
    pub fn reap(&self, attempt: AttemptId) -> Result<(), StateDirError> {
        let path = self.path(attempt);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_at(&path, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What an earlier run of the agent kept, and for how much longer. A folder whose age cannot be
    /// told (the clock was set back) has been kept long enough; what is no run's is deleted.
    pub fn load(&self, retain_for: Duration) -> Result<Vec<(AttemptId, Duration)>, StateDirError> {
        let mut kept = Vec::new();
        let entries = fs::read_dir(&self.folder).map_err(|error| io_at(&self.folder, error))?;
        for entry in entries {
            let path = entry.map_err(|error| io_at(&self.folder, error))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(attempt) = name.and_then(|name| name.parse().ok()) else {
                tracing::warn!(file = %path.display(), "what is no run's is not kept");
                let removed = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                removed.map_err(|error| io_at(&path, error))?;
                continue;
            };
            let made = fs::metadata(&path).and_then(|found| found.modified());
            let age = made.ok().and_then(|made| made.elapsed().ok());
            let left = age.and_then(|age| retain_for.checked_sub(age));
            kept.push((attempt, left.unwrap_or_default()));
        }
        Ok(kept)
    }

    fn path(&self, attempt: AttemptId) -> PathBuf {
        self.folder.join(attempt.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const RETAIN: Duration = Duration::from_mins(15);

    #[test]
    fn a_log_is_private_bounded_kept_and_reaped() {
        let temp = tempfile::tempdir().unwrap();
        let runs = KeptRuns::new(temp.path().to_owned());
        let attempt = AttemptId::new();
        runs.keep(attempt, &"x\0".repeat(MAX_LOG_BYTES)).unwrap();
        let folder = temp.path().join(attempt.to_string());
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let log = fs::read(folder.join("run.log")).unwrap();
        assert!(log.len() <= MAX_LOG_BYTES && !log.contains(&0));
        runs.reap(attempt).unwrap();
        runs.reap(attempt).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_time_that_is_left_goes_on_while_the_agent_does_not_run() {
        let temp = tempfile::tempdir().unwrap();
        let runs = KeptRuns::new(temp.path().to_owned());
        let (fresh, old, ahead) = (AttemptId::new(), AttemptId::new(), AttemptId::new());
        for attempt in [fresh, old, ahead] {
            runs.keep(attempt, "log").unwrap();
        }
        let shift = |attempt: AttemptId, to: std::time::SystemTime| {
            let folder = fs::File::open(temp.path().join(attempt.to_string())).unwrap();
            folder.set_modified(to).unwrap();
        };
        let made = fs::metadata(temp.path().join(old.to_string())).unwrap();
        let made = made.modified().unwrap();
        shift(old, made - RETAIN);
        shift(ahead, made + RETAIN);
        fs::write(temp.path().join("stray"), b"x").unwrap();
        for (attempt, left) in runs.load(RETAIN).unwrap() {
            assert_eq!(left > Duration::ZERO, attempt == fresh, "{left:?}");
            assert!(left <= RETAIN);
        }
        assert_eq!(runs.load(RETAIN).unwrap().len(), 3);
    }
}
