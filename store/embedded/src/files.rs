//! The few file operations that must be exact about owners and modes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use crate::account::Account;
use crate::error::EmbeddedError;

/// Makes `dir` (not its parents) with exactly `mode`; fine if it is already a real folder.
/// Returns whether it is new.
pub(crate) fn make_dir(dir: &Path, mode: u32) -> Result<bool, EmbeddedError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {
            // The umask has no say in this one.
            fs::set_permissions(dir, fs::Permissions::from_mode(mode))
                .map_err(EmbeddedError::io("set the mode of", dir))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(EmbeddedError::io("create", dir)(error)),
    }
}

/// Makes `dir` for the server's user alone, or checks that it is exactly that: the parent may be
/// writable by everybody, so an existing one proves nothing.
pub(crate) fn make_private_dir(dir: &Path, account: &Account) -> Result<(), EmbeddedError> {
    if make_dir(dir, 0o700)? {
        return account.take(dir);
    }
    let found = fs::symlink_metadata(dir).map_err(EmbeddedError::io("look at", dir))?;
    if !found.is_dir() || found.uid() != account.uid() || found.mode() & 0o077 != 0 {
        let problem = format!("exists, but is no private folder of user {}", account.uid());
        return Err(EmbeddedError::folder(dir, problem));
    }
    Ok(())
}

/// Gives a file that root made to the owner of the folder it is in, who may start this next.
pub(crate) fn give_to_owner_of(dir: &Path, file: &Path) -> Result<(), EmbeddedError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner = fs::metadata(dir).map_err(EmbeddedError::io("look at", dir))?;
    std::os::unix::fs::lchown(file, Some(owner.uid()), Some(owner.gid()))
        .map_err(EmbeddedError::io("change the owner of", file))
}

/// Writes a new 0600 file, synced; refuses an existing one.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<(), EmbeddedError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(EmbeddedError::io("create", path))?;
    file.write_all(content.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(EmbeddedError::io("write", path))
}

/// Makes a rename or a new name in `dir` survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), EmbeddedError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(EmbeddedError::io("sync", dir))
}

/// Opens `path` for reading and appending, following no link that somebody put there.
pub(crate) fn open_append(path: &Path) -> Result<File, EmbeddedError> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(no_follow.cast_signed())
        .open(path)
        .map_err(EmbeddedError::io("open", path))
}

/// Deletes a folder if it is there.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), EmbeddedError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(EmbeddedError::io("delete", dir)(error))
        }
        _ => Ok(()),
    }
}

/// The last lines of `path` that were written after byte `from`.
pub(crate) fn tail(path: &Path, from: u64) -> String {
    const MOST_BYTES: u64 = 4096;
    const MOST_LINES: usize = 15;
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(MOST_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().map_or_else(
        |error| format!("(unreadable: {error})"),
        |text| last_lines(&text, MOST_LINES),
    )
}

/// The last `most` lines of `text`.
pub(crate) fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}
