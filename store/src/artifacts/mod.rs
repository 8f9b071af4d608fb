//! The bytes of inputs and outputs, and the signed links that let people at them.
//!
//! Objects live in a folder, or in a bucket where there are several machines. Two rules hold for
//! both:
//!
//! - **Nothing is served that its sender can still change.** In a folder, bytes are written aside
//!   first ([`Staged`]) and put in place by a step of its own, which the caller takes only after the
//!   database has agreed. In a [`Bucket`], what a link covers is copied before it is used.
//! - **A copy is a copy.** Overwriting an object never changes what was copied from it before, so
//!   the copy that was verified stays what was verified.
//!
//! No function here holds a database row; none may be called while one is locked, except
//! [`Staged::commit`], which only renames.

mod bucket;
mod error;
mod leftovers;
mod links;
mod local_copy;
mod marker;
mod read;
mod staged;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt as _};

pub use bucket::{Bucket, BucketSettings, OpenUpload, checksum_header};
pub use error::ArtifactError;
pub use links::{Direction, Grant, Holder, LinkError, LinkSigner, Links, SigningKey};
pub use local_copy::LocalCopy;
pub use read::Object;
pub use staged::{Staged, Stored};

/// Where bytes are written before they are put in place.
const ASIDE: &str = "incoming";

/// All objects of one installation.
#[derive(Debug, Clone)]
pub struct ArtifactStore {
    objects: Arc<dyn ObjectStore>,
    /// The same store as a folder, where it is one: real paths save a copy of every byte.
    folder: Option<Arc<LocalFileSystem>>,
    /// The same store as a bucket, where it is one.
    bucket: Option<Bucket>,
}

impl ArtifactStore {
    /// Objects as files in `folder`, which is made if it does not exist.
    pub fn on_disk(folder: &Path) -> Result<Self, ArtifactError> {
        let aside = folder.join(ASIDE);
        // Buyers' files are nobody else's on this machine.
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(&aside).map_err(|error| {
            ArtifactError::Io(format!(
                "cannot make the folder {}: {error}",
                aside.display()
            ))
        })?;
        let removed = leftovers::remove(&aside)?;
        if removed > 0 {
            tracing::info!(removed, "removed uploads that were never finished");
        }
        let files = Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true));
        Ok(Self {
            objects: files.clone(),
            folder: Some(files),
            bucket: None,
        })
    }

    /// Objects in any other store.
    pub fn remote(objects: Arc<dyn ObjectStore>) -> Self {
        Self {
            objects,
            folder: None,
            bucket: None,
        }
    }

    /// Objects in a bucket.
    pub fn in_bucket(bucket: Bucket) -> Self {
        Self {
            objects: bucket.objects(),
            folder: None,
            bucket: Some(bucket),
        }
    }

    /// The bucket, where the store is one.
    pub fn bucket(&self) -> Option<&Bucket> {
        self.bucket.as_ref()
    }

    /// How many bytes the object has.
    pub async fn size(&self, key: &str) -> Result<u64, ArtifactError> {
        Ok(self.objects.head(&object_path(key)?).await?.size)
    }

    /// Makes `to` the same bytes as `from` is now, replacing what `to` was. Later writes to `from`
    /// do not change `to`: on disk this is a second name for the file, and every write of ours
    /// makes a new file.
    pub async fn copy(&self, from: &str, to: &str) -> Result<(), ArtifactError> {
        let (from, to) = (object_path(from)?, object_path(to)?);
        Ok(self.objects.copy(&from, &to).await?)
    }

    /// Copies `from` to where no link ever led: to `to` on disk, below it in a bucket. Gives the
    /// key of the copy.
    pub async fn seal(&self, from: &str, to: &str) -> Result<String, ArtifactError> {
        if let Some(bucket) = &self.bucket {
            return bucket.seal(from, to).await;
        }
        self.copy(from, to).await?;
        Ok(to.to_owned())
    }

    /// Removes the copies that [`ArtifactStore::seal`] may have made of something to `to`, but for
    /// the one to keep.
    pub async fn remove_copies(&self, to: &str, keep: Option<&str>) -> Result<(), ArtifactError> {
        if self.bucket.is_none() {
            return match keep {
                Some(kept) if kept == to => Ok(()),
                _ => self.delete(to).await,
            };
        }
        let mut below = self.objects.list(Some(&object_path(to)?));
        while let Some(object) = below.try_next().await? {
            let key = object.location.as_ref();
            if keep != Some(key) {
                self.delete(key).await?;
            }
        }
        Ok(())
    }

    /// Removes the object. One that is not there is as good as removed.
    pub async fn delete(&self, key: &str) -> Result<(), ArtifactError> {
        match self.objects.delete(&object_path(key)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The object's place on disk, where the store is a folder.
    fn file_of(&self, path: &ObjectPath) -> Result<Option<PathBuf>, ArtifactError> {
        let folder = self.folder.as_ref();
        Ok(folder
            .map(|files| files.path_to_filesystem(path))
            .transpose()?)
    }
}

/// Refuses keys that are not plain relative paths (`..`, empty parts, control characters).
fn object_path(key: &str) -> Result<ObjectPath, ArtifactError> {
    ObjectPath::parse(key).map_err(|error| ArtifactError::BadKey(error.to_string()))
}

#[cfg(test)]
mod tests;
