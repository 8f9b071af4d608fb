//! Reading objects: parts of them as a stream, and all of them for a digest.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::{ArtifactError, ArtifactStore, Stored, object_path};

/// How much is read at once.
const CHUNK_BYTES: u64 = 128 * 1024;
/// How many chunks may wait to be written.
const CHUNKS_ON_THE_WAY: usize = 16;

/// A part of an object, on its way.
pub struct Object {
    /// The size of the whole object.
    pub size_bytes: u64,
    /// Which bytes the stream yields.
    pub range: Range<u64>,
    /// The bytes. An error ends it.
    pub stream: BoxStream<'static, Result<Bytes, ArtifactError>>,
}

impl ArtifactStore {
    /// Opens a part of the object, or all of it. The range must lie within the object.
    pub async fn get_range(
        &self,
        key: &str,
        range: Option<Range<u64>>,
    ) -> Result<Object, ArtifactError> {
        let path = object_path(key)?;
        let Some(range) = range else {
            let result = self.objects.get_opts(&path, GetOptions::default()).await?;
            return Ok(into_object(result));
        };
        let size_bytes = self.size(key).await?;
        if range.start >= range.end || range.end > size_bytes {
            return Err(ArtifactError::OutOfRange { size_bytes });
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        Ok(into_object(self.objects.get_opts(&path, options).await?))
    }

    /// Reads all of the object for its size and digest, off the threads that serve others.
    pub async fn digest(&self, key: &str) -> Result<Stored, ArtifactError> {
        let path = object_path(key)?;
        if let Some(file) = self.file_of(&path)? {
            let key = key.to_owned();
            return spawn_blocking(move || digest_of_file(&file, &key)).await?;
        }
        self.get_range(key, None).await?.read_into(io::sink()).await
    }
}

impl Object {
    /// Writes all of it to `target`, counting and digesting, on a thread of its own.
    pub(super) async fn read_into(
        mut self,
        mut target: impl io::Write + Send + 'static,
    ) -> Result<Stored, ArtifactError> {
        let (chunks, mut incoming) = mpsc::channel::<Bytes>(CHUNKS_ON_THE_WAY);
        let writing = spawn_blocking(move || {
            let mut digest = Sha256::new();
            let mut size_bytes = 0;
            while let Some(chunk) = incoming.blocking_recv() {
                size_bytes += chunk.len() as u64;
                digest.update(&chunk);
                target.write_all(&chunk)?;
            }
            target.flush()?;
            Ok::<_, io::Error>(Stored {
                size_bytes,
                sha256: digest.finalize().into(),
            })
        });
        let mut trouble = None;
        loop {
            match self.stream.try_next().await {
                Ok(Some(chunk)) => {
                    // A writer that is gone says why below.
                    if chunks.send(chunk).await.is_err() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    trouble = Some(error);
                    break;
                }
            }
        }
        drop(chunks);
        let stored = writing.await??;
        match trouble {
            Some(error) => Err(error),
            None if stored.size_bytes == self.size_bytes => Ok(stored),
            None => Err(ArtifactError::Io("an object ended early".to_owned())),
        }
    }
}

fn into_object(result: object_store::GetResult) -> Object {
    let (size_bytes, range) = (result.meta.size, result.range.clone());
    let stream = match result.payload {
        GetResultPayload::File(file, _) => file_stream(file, range.clone()),
        GetResultPayload::Stream(stream) => stream.map_err(ArtifactError::from).boxed(),
    };
    Object {
        size_bytes,
        range,
        stream,
    }
}

/// The same as object_store's own stream, in larger steps: each costs a hop to another thread.
fn file_stream(file: File, range: Range<u64>) -> BoxStream<'static, Result<Bytes, ArtifactError>> {
    stream::try_unfold((file, range), |(file, range)| async move {
        if range.is_empty() {
            return Ok(None);
        }
        let (file, chunk) = spawn_blocking({
            let range = range.clone();
            move || read_chunk(file, &range)
        })
        .await??;
        let rest = range.start + chunk.len() as u64..range.end;
        Ok(Some((chunk, (file, rest))))
    })
    .boxed()
}

fn read_chunk(mut file: File, range: &Range<u64>) -> Result<(File, Bytes), ArtifactError> {
    file.seek(SeekFrom::Start(range.start))?;
    let want = CHUNK_BYTES.min(range.end - range.start);
    let mut chunk = Vec::new();
    (&mut file).take(want).read_to_end(&mut chunk)?;
    if chunk.is_empty() {
        return Err(ArtifactError::Io(
            "the file is shorter than it was".to_owned(),
        ));
    }
    Ok((file, chunk.into()))
}

fn digest_of_file(file: &PathBuf, key: &str) -> Result<Stored, ArtifactError> {
    let mut file = File::open(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ArtifactError::NotFound(key.to_owned()),
        _ => error.into(),
    })?;
    let mut digest = Sha256::new();
    let mut size_bytes = 0;
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        size_bytes += read as u64;
        digest.update(&buffer[..read]);
    }
    Ok(Stored {
        size_bytes,
        sha256: digest.finalize().into(),
    })
}
