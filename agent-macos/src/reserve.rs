//! A file that holds nothing, so that there is room for the outbox when the disk is full.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Room for the records of all slots that an agent may have, in bytes.
const BYTES: usize = 1 << 20;

/// The file. Cheap to clone; all clones are the same file.
#[derive(Debug, Clone)]
pub struct Reserve {
    path: Arc<PathBuf>,
}

impl Reserve {
    /// The reserve at `path`, not filled yet.
    pub fn new(path: PathBuf) -> Self {
        let path = Arc::new(path);
        Self { path }
    }

    /// Makes the file if it is missing. If there is no room for it, then there is none.
    pub fn fill(&self) {
        let missing = fs::metadata(&*self.path).map_or(true, |found| found.len() < BYTES as u64);
        if !missing {
            return;
        }
        // Written, not only made longer: a hole keeps no room.
        if let Err(error) = fs::write(&*self.path, vec![0x5f; BYTES]) {
            tracing::warn!(%error, "there is no reserve for a full disk");
            self.give_up();
        }
    }

    /// Makes its room available.
    pub fn give_up(&self) {
        match fs::remove_file(&*self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the reserve could not be given up");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Whether an error says that there is no room.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_holds_real_bytes_until_it_is_given_up() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("reserve");
        let reserve = Reserve::new(path.clone());
        reserve.fill();
        reserve.fill();
        assert_eq!(fs::metadata(&path).unwrap().len(), BYTES as u64);
        reserve.give_up();
        reserve.give_up();
        assert!(!path.exists());
    }
}
