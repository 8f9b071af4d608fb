//! An object as a file with a path, for programs that want one.

use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::{ArtifactError, ArtifactStore, Stored, object_path};

/// A file with an object's bytes, to be read and not written. A downloaded one goes when this does.
#[derive(Debug)]
pub struct LocalCopy {
    path: PathBuf,
    _downloaded: Option<TempPath>,
}

impl LocalCopy {
    /// Where the bytes are.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl ArtifactStore {
    /// The object as a file: the very one where the store is a folder, else a download.
    pub async fn local_copy(&self, key: &str) -> Result<LocalCopy, ArtifactError> {
        let object_path = object_path(key)?;
        if let Some(path) = self.file_of(&object_path)? {
            self.size(key).await?;
            return Ok(LocalCopy {
                path,
                _downloaded: None,
            });
        }
        Ok(self.download(key).await?.0)
    }

    /// The object as a file, and what is in it: read once, where it has to come over a network.
    pub async fn read_copy(&self, key: &str) -> Result<(LocalCopy, Stored), ArtifactError> {
        if self.folder.is_none() {
            return self.download(key).await;
        }
        Ok((self.local_copy(key).await?, self.digest(key).await?))
    }

    async fn download(&self, key: &str) -> Result<(LocalCopy, Stored), ArtifactError> {
        let (file, path) = tempfile::NamedTempFile::new()?.into_parts();
        let object = self.get_range(key, None).await?;
        let stored = object.read_into(file).await?;
        let copy = LocalCopy {
            path: path.to_path_buf(),
            _downloaded: Some(path),
        };
        Ok((copy, stored))
    }
}
