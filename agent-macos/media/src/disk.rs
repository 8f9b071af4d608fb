//! How much room there is on a disk, and how much a folder takes.

use std::fs;
use std::io;
use std::path::Path;

/// Bytes that we may still write below `folder`.
///
/// # Errors
/// The file system's.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(folder)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Bytes that files below `folder` hold. Links lead nowhere; what cannot be read, or has just gone, counts as
/// nothing.
pub fn used_bytes(folder: &Path) -> u64 {
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
