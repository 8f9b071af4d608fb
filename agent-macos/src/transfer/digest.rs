//! SHA-256 of a file, on a thread of its own and stoppable.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{LeaseWatch, StepError};

const CHUNK: usize = 1 << 20;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// SHA-256, lower-case hexadecimal.
    pub sha256: String,
    /// Number of bytes.
    pub size_bytes: u64,
}

/// Reads the whole file without holding up anything else.
pub async fn of_file(path: &Path, live: &LeaseWatch) -> Result<Digest, StepError> {
    let path: PathBuf = path.to_owned();
    let watch = live.clone();
    let reading = tokio::task::spawn_blocking(move || read(&path, &watch));
    reading
        .await
        .map_err(|_| StepError::failed("internal_error", "the digest was not finished"))?
}

fn read(path: &Path, live: &LeaseWatch) -> Result<Digest, StepError> {
    let trouble = |error: io::Error| StepError::device("the output cannot be read", &error);
    let mut file = File::open(path).map_err(trouble)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut size_bytes = 0;
    loop {
        live.check()?;
        match file.read(&mut buffer).map_err(trouble)? {
            0 => {
                return Ok(Digest {
                    sha256: hex::encode(hasher.finalize()),
                    size_bytes,
                });
            }
            count => {
                hasher.update(&buffer[..count]);
                size_bytes += count as u64;
            }
        }
    }
}
