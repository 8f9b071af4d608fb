//! One process per data folder: an advisory lock that ends with its holder, however that ends.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::error::EmbeddedError;
use crate::files;

/// Held for as long as the server may run. The descriptor is close-on-exec, so that an orphaned
/// server does not hold it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of `data_dir`, or says at once who has it.
    pub(crate) fn acquire(data_dir: &Path) -> Result<Self, EmbeddedError> {
        let path = data_dir.join("lock");
        let mut file = files::open_append(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let pid = holder.trim().parse().ok();
                return Err(EmbeddedError::InUse {
                    data_dir: data_dir.to_owned(),
                    pid,
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(EmbeddedError::io("lock", &path)(source));
            }
        }
        files::give_to_owner_of(data_dir, &path)?;
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(EmbeddedError::io("write", &path))?;
        Ok(Self { file })
    }
}

impl Drop for Lock {
    /// Closing alone would not do: a child that another thread is starting just now holds a copy of
    /// the descriptor until it has become its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}
