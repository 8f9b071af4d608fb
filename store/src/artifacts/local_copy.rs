//! An object as a file with a path, for programs that want one.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use tempfile::TempPath;
use tokio::task::spawn_blocking;

use super::{ArtifactError, ArtifactStore, object_path};

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
        let mut object = self.get_range(key, None).await?;
        let (mut file, path) = tempfile::NamedTempFile::new()?.into_parts();
        while let Some(chunk) = object.stream.try_next().await? {
            file = spawn_blocking(move || file.write_all(&chunk).map(|()| file)).await??;
        }
        Ok(LocalCopy {
            path: path.to_path_buf(),
            _downloaded: Some(path),
        })
    }
}
