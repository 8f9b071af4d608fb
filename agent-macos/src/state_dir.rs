//! The agent's folder on disk, its layout and its lock.
//!
//! ```text
//! device.json            who we are: gateway, device, device token              0600
//! agent.lock             held while `run` is running
//! status.json            what `status` shows, rewritten by `run`
//! leases/<attempt>.json  what we hold and what is not answered yet (see outbox)  0600
//! work/<attempt>/        one private folder per attempt                          0700
//! kept/<attempt>/        logs of failed runs, for a while                         0700
//! children/              running encoders, for the next run if this one is killed
//! reserve                room for `leases/` when the disk is full
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::reserve::Reserve;

/// Trouble with the state folder.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// The lock is held.
    #[error(
        "another fencepost-agent is already running with {}: stop it first, or give this one a \
         state folder of its own with --state-dir",
        .0.display()
    )]
    Locked(PathBuf),
    /// The file system said no.
    #[error("{}: {error}", path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
}

/// Where everything is.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

/// Held for as long as an agent runs; the kernel lets go of it if we die.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateDir {
    /// Opens the folder, making it (0700) if it is missing. The path is made absolute, because
    /// children run in other folders.
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        make_private_dir(path)?;
        let root = fs::canonicalize(path).map_err(|error| io_at(path, error))?;
        Ok(Self { root })
    }

    /// The credential.
    pub fn device_file(&self) -> PathBuf {
        self.root.join("device.json")
    }

    /// What `status` reads.
    pub fn status_file(&self) -> PathBuf {
        self.root.join("status.json")
    }

    /// The outbox; made if missing.
    pub fn leases(&self) -> Result<PathBuf, StateDirError> {
        self.folder("leases")
    }

    /// Where logs of failed runs are kept; made if missing.
    pub fn kept(&self) -> Result<PathBuf, StateDirError> {
        self.folder("kept")
    }

    /// Where running children are entered; made if missing.
    pub fn children(&self) -> Result<PathBuf, StateDirError> {
        self.folder("children")
    }

    /// The room that is kept for the outbox.
    pub fn reserve(&self) -> Reserve {
        Reserve::new(self.root.join("reserve"))
    }

    /// The parent of all workspaces; made if missing.
    pub fn work(&self) -> Result<PathBuf, StateDirError> {
        self.folder("work")
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// [`StateDirError::Locked`] if another process has it.
    pub fn lock(&self) -> Result<StateLock, StateDirError> {
        let path = self.root.join("agent.lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| io_at(&path, error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(StateLock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StateDirError::Locked(self.root.clone())),
            Err(error) => Err(io_at(&path, error.into())),
        }
    }

    fn folder(&self, name: &str) -> Result<PathBuf, StateDirError> {
        let path = self.root.join(name);
        make_private_dir(&path)?;
        Ok(path)
    }
}

fn make_private_dir(path: &Path) -> Result<(), StateDirError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| io_at(path, error))
}

/// Replaces `path` by these bytes so that a reader, or a crash, sees the old or the new content and
/// nothing between, and it survives a power cut. The file is the owner's alone.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StateDirError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let file = beside(folder, bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        // Without this the new name itself may be gone after a power cut.
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| io_at(path, error))
}

/// Like [`write_atomically`] for what may be lost in a power cut, without the disk's effort.
pub fn write_lightly(path: &Path, bytes: &[u8]) -> Result<(), StateDirError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    beside(folder, bytes)
        .and_then(|file| Ok(file.persist(path)?))
        .map(drop)
        .map_err(|error| io_at(path, error))
}

fn beside(folder: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    Ok(file)
}

pub(crate) fn io_at(path: &Path, error: io::Error) -> StateDirError {
    StateDirError::Io {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_until_the_first_is_dropped() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(temp.path()).unwrap();
        let first = state.lock().unwrap();
        let error = state.lock().unwrap_err();
        assert!(matches!(error, StateDirError::Locked(_)) && error.to_string().contains("already"));
        drop(first);
        state.lock().unwrap();
    }

    #[test]
    fn an_atomic_write_leaves_one_private_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn folders_are_made_for_the_owner_alone() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(&temp.path().join("deep/state")).unwrap();
        for folder in [state.leases().unwrap(), state.work().unwrap()] {
            assert_eq!(
                fs::metadata(folder).unwrap().permissions().mode() & 0o777,
                0o700
            );
        }
    }
}
