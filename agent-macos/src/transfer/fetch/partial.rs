//! What is on disk of an input that is being fetched, so that a try can go on where another was cut.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

/// A file and the digest of what is in it.
#[derive(Debug)]
pub(super) struct Partial {
    file: File,
    hasher: Sha256,
    size: u64,
    tag: Option<String>,
    resumed: bool,
}

impl Partial {
    /// An empty file; one that is there is emptied, but nothing is written through a link.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        Ok(Self {
            file,
            hasher: Sha256::new(),
            size: 0,
            tag: None,
            resumed: false,
        })
    }

    /// Number of bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The host's name for the version that they are of.
    pub(super) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Whether more can be added to what is there.
    pub(super) fn can_go_on(&self) -> bool {
        self.size == 0 || self.tag.is_some()
    }

    /// Whether it came in more than one piece.
    pub(super) fn was_resumed(&self) -> bool {
        self.resumed
    }

    /// The rest is of this version.
    pub(super) fn comes_with(&mut self, tag: Option<String>) {
        self.resumed = self.size > 0;
        self.tag = tag;
    }

    /// The next try begins at the beginning.
    pub(super) fn forget_tag(&mut self) {
        self.tag = None;
    }

    /// Empties it.
    pub(super) fn start_over(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.hasher = Sha256::new();
        self.size = 0;
        self.tag = None;
        self.resumed = false;
        Ok(())
    }

    /// Whether its bytes are the promised ones, if any were.
    pub(super) fn has(&self, sha256: Option<&str>) -> bool {
        let is = |promised: &str| {
            let found = hex::encode(self.hasher.clone().finalize());
            promised.eq_ignore_ascii_case(&found)
        };
        sha256.is_none_or(is)
    }

    /// Adds what comes, until nothing does. Blocks.
    pub(super) fn write(mut self, mut incoming: mpsc::Receiver<Bytes>) -> io::Result<Self> {
        while let Some(chunk) = incoming.blocking_recv() {
            self.file.write_all(&chunk)?;
            self.hasher.update(&chunk);
            self.size += chunk.len() as u64;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::Partial;

    #[test]
    fn nothing_is_written_through_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let (target, link) = (temp.path().join("target"), temp.path().join("link"));
        std::fs::write(&target, "kept").unwrap();
        symlink(&target, &link).unwrap();
        assert!(Partial::create(&link).is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"kept");
    }
}
