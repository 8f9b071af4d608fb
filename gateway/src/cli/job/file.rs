//! Files of the buyer: read once for their digest, written so that nothing is ever half there.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};

use super::JobError;

const BUFFER: usize = 256 * 1024;

/// Whether a file is one that can be sent, as far as that can be seen without reading it all.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let facts = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if facts.is_dir() {
        return Err(
            "is a folder, no regular file; a bundle is given by the address of its manifest, which `fencepost bundle \
             manifest` makes"
                .to_owned(),
        );
    }
    if !facts.is_file() {
        return Err("is no regular file".to_owned());
    }
    if facts.len() == 0 {
        return Err("is empty".to_owned());
    }
    std::fs::File::open(path).map_err(|error| error.to_string())?;
    Ok(())
}

/// The digest of a file, and its size; the bar shows how much of it was read.
pub(super) async fn digest(path: &Path, bar: &ProgressBar) -> Result<(String, u64), JobError> {
    let (file, bar) = (path.to_owned(), bar.clone());
    let digest = move || {
        let (hasher, size) = hash(&file, u64::MAX, &bar)?;
        Ok((hex::encode(hasher.finalize()), size))
    };
    let digest = blocking(digest).await;
    digest.map_err(|error: io::Error| JobError::Usage(format!("{}: {error}", path.display())))
}

/// The digest of the first bytes of a file, to go on from, and how many there were.
pub(super) fn hash(path: &Path, most: u64, bar: &ProgressBar) -> io::Result<(Sha256, u64)> {
    let mut file = std::fs::File::open(path)?.take(most);
    let (mut hasher, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((hasher, size));
        }
        hasher.update(&buffer[..count]);
        size += count as u64;
        bar.set_position(size);
    }
}

/// Runs what blocks beside everything else.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

/// The file that grows until it is whole.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Gives a whole file its name; another file of that name is replaced only if `force` says so.
pub(super) fn put_in_place(part: &Path, path: &Path, force: bool) -> Result<(), JobError> {
    if force {
        return Ok(std::fs::rename(part, path)?);
    }
    let whole = tempfile::TempPath::try_from_path(part)?;
    whole.persist_noclobber(path).map_err(|error| {
        // The bytes are good: they stay.
        let kept = error.path.keep().is_ok();
        match error.error.kind() {
            io::ErrorKind::AlreadyExists if kept => exists(path),
            _ => JobError::Io(error.error),
        }
    })
}

/// What is said of a file that would be lost.
pub(super) fn exists(path: &Path) -> JobError {
    JobError::Usage(format!(
        "{} exists already: name another file, or replace it with --force",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_replaced_by_force_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (file, part) = (folder.path().join("a"), part_of(&folder.path().join("a")));
        std::fs::write(&part, "new").unwrap();
        put_in_place(&part, &file, false).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        std::fs::write(&part, "newer").unwrap();
        let refused = put_in_place(&part, &file, false).unwrap_err();
        assert_eq!(refused.code(), 2, "{refused}");
        assert_eq!(std::fs::read(&part).unwrap(), b"newer");
        put_in_place(&part, &file, true).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"newer");
    }
}
