//! One private folder per attempt, which is gone when the attempt is.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use fencepost_domain::ids::AttemptId;

/// A folder that this attempt alone uses. Removed with everything in it, at the latest on drop.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
}

impl Workspace {
    /// Makes the folder (0700). It must not exist: two owners of one folder would clean up each
    /// other's files.
    pub fn create(parent: &Path, attempt: AttemptId) -> io::Result<Self> {
        let path = parent.join(attempt.to_string());
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it without holding up anything else.
    pub async fn remove(self) {
        // Dropping is removing. A runtime that is going down drops the closure, which removes too.
        let dropped = tokio::task::spawn_blocking(move || drop(self)).await;
        if let Err(error) = dropped {
            tracing::warn!(%error, "removing a workspace was cut short");
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes what an earlier run left. At start no attempt has any work yet, so all of it goes.
pub fn clean_leftovers(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        tracing::info!(folder = %path.display(), "removing a workspace of an earlier run");
        remove(&path);
    }
    Ok(())
}

fn remove(path: &Path) {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::error!(folder = %path.display(), %error, "a workspace could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_workspace_is_private_exclusive_and_gone_afterwards() {
        let temp = tempfile::tempdir().unwrap();
        let attempt = AttemptId::new();
        let workspace = Workspace::create(temp.path(), attempt).unwrap();
        let path = workspace.path().to_owned();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert!(Workspace::create(temp.path(), attempt).is_err());
        fs::write(path.join("output.mp4"), b"half").unwrap();
        drop(workspace);
        assert!(!path.exists());
    }

    #[test]
    fn a_panic_leaves_no_workspace_behind() {
        let temp = tempfile::tempdir().unwrap();
        let parent = temp.path().to_owned();
        let worker = std::thread::spawn(move || {
            let _workspace = Workspace::create(&parent, AttemptId::new()).unwrap();
            panic!("a defect");
        });
        assert!(worker.join().is_err());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn leftovers_of_an_earlier_run_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join(AttemptId::new().to_string())).unwrap();
        fs::write(temp.path().join("stray"), b"x").unwrap();
        clean_leftovers(temp.path()).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
