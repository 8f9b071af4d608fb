//! Fetches an input and checks that it is the one that was promised.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;
use fencepost_protocol::InputGrant;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use url::Url;

use super::digest::hex;
use super::{StepError, TryError, is_passing, with_retries, without_address};

/// Chunks on their way from the network to the disk.
const CHUNKS_IN_FLIGHT: usize = 16;
const CODE: &str = "download_failed";

/// Streams `url` to `file`, checking size and SHA-256 on the way. `received` hears the bytes so far.
pub async fn download(
    client: &reqwest::Client,
    url: &Url,
    grant: &InputGrant,
    file: &Path,
    received: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), StepError> {
    with_retries(CODE, || try_once(client, url, grant, file, received)).await
}

async fn try_once(
    client: &reqwest::Client,
    url: &Url,
    grant: &InputGrant,
    file: &Path,
    received: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), TryError> {
    let again = |error| TryError::Again(without_address(error));
    let mut response = client.get(url.clone()).send().await.map_err(again)?;
    let status = response.status();
    if status != reqwest::StatusCode::OK {
        let message = format!("input {:?}: HTTP {status}", grant.name);
        return Err(if is_passing(status) {
            TryError::Again(message)
        } else {
            TryError::Final(StepError::failed(CODE, message))
        });
    }
    let (chunks, incoming) = mpsc::channel(CHUNKS_IN_FLIGHT);
    let target = File::create(file)
        .map_err(|error| TryError::Final(StepError::device("the input cannot be kept", &error)))?;
    let writer = tokio::task::spawn_blocking(move || write(target, incoming));
    let mut size = 0_u64;
    while let Some(chunk) = response.chunk().await.map_err(again)? {
        size += chunk.len() as u64;
        if size > grant.size_bytes {
            return Err(wrong(grant, "is longer than promised"));
        }
        received(size);
        if chunks.send(chunk).await.is_err() {
            // The writer has failed and says why below.
            break;
        }
    }
    drop(chunks);
    let sha256 = writer
        .await
        .map_err(|_| TryError::Final(StepError::failed("internal_error", "the writer is gone")))?
        .map_err(|error| TryError::Final(StepError::device("the input cannot be kept", &error)))?;
    if size < grant.size_bytes {
        return Err(wrong(grant, "is shorter than promised"));
    }
    if !sha256.eq_ignore_ascii_case(&grant.sha256) {
        return Err(wrong(grant, "has another SHA-256 than promised"));
    }
    Ok(())
}

/// Other bytes than promised do not get better by asking for them again.
fn wrong(grant: &InputGrant, how: &str) -> TryError {
    TryError::Final(StepError::failed(
        CODE,
        format!("input {:?} {how}", grant.name),
    ))
}

fn write(mut file: File, mut incoming: mpsc::Receiver<Bytes>) -> io::Result<String> {
    let mut hasher = Sha256::new();
    while let Some(chunk) = incoming.blocking_recv() {
        hasher.update(&chunk);
        file.write_all(&chunk)?;
    }
    Ok(hex(&hasher.finalize()))
}
