//! Bytes that are all there, but not yet in place.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use object_store::path::Path as ObjectPath;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::{ASIDE, ArtifactError, ArtifactStore, object_path};

/// Bytes are handed to the store in parts of this size; S3 takes no smaller ones.
const PART_BYTES: usize = 5 * 1024 * 1024;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Number of bytes.
    pub size_bytes: u64,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
}

impl Stored {
    /// The digest in lower-case hexadecimal.
    pub fn sha256_hex(&self) -> String {
        hex::encode(self.sha256)
    }
}

/// Bytes written aside, durable, under a name that nobody asks for.
///
/// [`Staged::commit`] puts them in place; dropping them uncommitted removes them.
#[derive(Debug)]
pub struct Staged {
    stored: Stored,
    aside: ObjectPath,
    target: ObjectPath,
    objects: Arc<dyn ObjectStore>,
    /// Where the bytes are on disk, where there is one.
    file: Option<PathBuf>,
    /// Where they belong on disk, where there is one.
    target_file: Option<PathBuf>,
    /// Whether there is nothing aside any more.
    gone: AtomicBool,
}

impl Staged {
    /// What was written.
    pub fn stored(&self) -> Stored {
        self.stored
    }

    /// Puts the bytes in place, all at once, over whatever was there. On disk this is one rename.
    ///
    /// May be called again, as a transaction that is run again does: they are in place then.
    pub async fn commit(&self) -> Result<Stored, ArtifactError> {
        if !self.gone.load(Ordering::Acquire) {
            self.objects.rename(&self.aside, &self.target).await?;
            self.gone.store(true, Ordering::Release);
        }
        Ok(self.stored)
    }

    /// The same as [`Staged::commit`] for a transaction that does it under a lock: system calls
    /// only, no await. Works where the store is a folder; a bucket's objects are written through
    /// its own signed links and never come this way.
    pub fn place(&self) -> io::Result<()> {
        let (Some(file), Some(target)) = (&self.file, &self.target_file) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        if self.gone.load(Ordering::Acquire) {
            return Ok(());
        }
        let folder = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let new_folders = make_folders(folder)?;
        std::fs::rename(file, target)?;
        self.gone.store(true, Ordering::Release);
        sync_folders(folder, if new_folders { self.depth() } else { 1 })
    }

    /// Makes the folders that [`Staged::place`] needs, durably, so that little is left to do under
    /// its lock.
    pub async fn make_room(&self) -> Result<(), ArtifactError> {
        let Some(target) = self.target_file.clone() else {
            return Ok(());
        };
        let depth = self.depth();
        let made = spawn_blocking(move || {
            let folder = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
            if make_folders(folder)? {
                sync_folders(folder, depth)?;
            }
            Ok::<_, io::Error>(())
        });
        made.await??;
        Ok(())
    }

    /// How many folders there are from the store's own to the target's.
    fn depth(&self) -> usize {
        self.target.parts().count()
    }

    /// Removes the bytes and waits for it. Dropping does the same on disk; in a bucket, what is
    /// merely dropped stays under `incoming/` until the bucket's own rule clears it.
    pub async fn discard(self) -> Result<(), ArtifactError> {
        self.objects.delete(&self.aside).await?;
        self.gone.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(file) = self.file.take()
            && !self.gone.load(Ordering::Acquire)
            && let Err(error) = std::fs::remove_file(&file)
        {
            tracing::warn!(file = %file.display(), %error, "bytes that nobody wants stay on disk");
        }
    }
}

/// Whether the folders had to be made.
fn make_folders(folder: &Path) -> io::Result<bool> {
    let missing = !folder.is_dir();
    if missing {
        std::fs::create_dir_all(folder)?;
    }
    Ok(missing)
}

/// Makes a rename durable, and the folders that were made for it, up to the store's own.
fn sync_folders(innermost: &Path, depth: usize) -> io::Result<()> {
    for folder in innermost.ancestors().take(depth) {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

impl ArtifactStore {
    /// Writes a stream aside, for `key`. Fails, keeping nothing, if more than `max_bytes` come or
    /// other than `declared_len`.
    ///
    /// Dropping the future removes what was written so far.
    pub async fn put_stream<S, E>(
        &self,
        key: &str,
        max_bytes: u64,
        declared_len: Option<u64>,
        stream: S,
    ) -> Result<Staged, ArtifactError>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: Display,
    {
        let target = object_path(key)?;
        if declared_len.is_some_and(|declared| declared > max_bytes) {
            return Err(ArtifactError::TooLarge { max_bytes });
        }
        let aside = object_path(&format!("{ASIDE}/{}", Uuid::now_v7()))?;
        let mut upload = self.objects.put_multipart(&aside).await?;
        match write_parts(upload.as_mut(), max_bytes, declared_len, stream).await {
            Ok(stored) => {
                upload.complete().await?;
                Ok(Staged {
                    stored,
                    file: self.file_of(&aside)?,
                    target_file: self.file_of(&target)?,
                    aside,
                    target,
                    objects: Arc::clone(&self.objects),
                    gone: AtomicBool::new(false),
                })
            }
            Err(refusal) => {
                if let Err(error) = upload.abort().await {
                    tracing::warn!(%aside, %error, "a refused upload could not be cleared away");
                }
                Err(refusal)
            }
        }
    }
}

/// Hands the stream over part by part, counting and digesting.
async fn write_parts<S, E>(
    upload: &mut dyn MultipartUpload,
    max_bytes: u64,
    declared_len: Option<u64>,
    mut stream: S,
) -> Result<Stored, ArtifactError>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Display,
{
    let mut digest = Sha256::new();
    let mut received = 0_u64;
    let mut part: Vec<Bytes> = Vec::new();
    let mut part_bytes = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| ArtifactError::Sender(error.to_string()))?;
        received += chunk.len() as u64;
        if received > max_bytes {
            return Err(ArtifactError::TooLarge { max_bytes });
        }
        if let Some(declared) = declared_len.filter(|declared| received > *declared) {
            return Err(ArtifactError::WrongLength { declared, received });
        }
        digest.update(&chunk);
        part_bytes += chunk.len();
        part.push(chunk);
        if part_bytes >= PART_BYTES {
            upload
                .put_part(std::mem::take(&mut part).into_iter().collect())
                .await?;
            part_bytes = 0;
        }
    }
    if let Some(declared) = declared_len.filter(|declared| received != *declared) {
        return Err(ArtifactError::WrongLength { declared, received });
    }
    upload
        .put_part(part.into_iter().collect::<PutPayload>())
        .await?;
    Ok(Stored {
        size_bytes: received,
        sha256: digest.finalize().into(),
    })
}
