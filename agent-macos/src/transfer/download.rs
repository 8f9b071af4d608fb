//! Fetches an input and checks that it is the one that was promised.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;
use fencepost_protocol::InputGrant;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::link::Link;
use super::{Network, StepError, TryError, refused, unanswered, with_retries, without_address};

/// Chunks on their way from the network to the disk.
const CHUNKS_IN_FLIGHT: usize = 16;
const CODE: &str = "download_failed";

/// An input of the gateway's, whose bytes are known.
#[derive(Debug, Clone, Copy)]
struct Promised<'a> {
    name: &'a str,
    sha256: &'a str,
    size_bytes: u64,
}

impl<'a> Promised<'a> {
    fn of(grant: &'a InputGrant) -> Result<Self, StepError> {
        let known = grant.sha256.as_deref().zip(grant.size_bytes);
        let (sha256, size_bytes) = known.ok_or_else(|| {
            let message = format!("input {:?}: the offer does not say what it is", grant.name);
            StepError::failed("internal_error", message)
        })?;
        Ok(Self {
            name: &grant.name,
            sha256,
            size_bytes,
        })
    }
}

/// Called with the bytes received so far.
pub type OnReceived<'a> = &'a (dyn Fn(u64) + Send + Sync);

/// Streams what is behind `link` to `file`, checking size and SHA-256 on the way.
pub async fn download(
    network: &Network,
    link: &mut Link<'_>,
    grant: &InputGrant,
    file: &Path,
    received: OnReceived<'_>,
) -> Result<(), StepError> {
    let promised = &Promised::of(grant)?;
    with_retries(CODE, network, link, |url| {
        try_once(network, url, promised, file, received)
    })
    .await
}

async fn try_once(
    network: &Network,
    url: Url,
    promised: &Promised<'_>,
    file: &Path,
    received: OnReceived<'_>,
) -> Result<(), TryError> {
    let request = network.get(url).map_err(|refused| {
        let message = format!("input {:?}: its address {refused}", promised.name);
        TryError::Final(StepError::failed(CODE, message))
    })?;
    let asking = timeout(network.idle, request.send());
    let answer = asking.await.map_err(|_| stands_still(promised))?;
    let response = answer.map_err(unanswered)?;
    let status = response.status();
    if status != reqwest::StatusCode::OK {
        return Err(refused(CODE, status, &format!("input {:?}", promised.name)));
    }
    let (chunks, incoming) = mpsc::channel(CHUNKS_IN_FLIGHT);
    let target = File::create(file).map_err(|error| cannot_keep(&error))?;
    let writer = tokio::task::spawn_blocking(move || write(target, incoming));
    let body = receive(network, response, promised, chunks, received).await;
    // Also after trouble: the next try must not find somebody else writing to its file.
    let sha256 = written(writer).await?;
    let size = body?;
    if size < promised.size_bytes {
        // A connection that ends early looks like this where no length was announced.
        return Err(TryError::Again(other_than_promised(promised, "is shorter")));
    }
    if !sha256.eq_ignore_ascii_case(promised.sha256) {
        return Err(wrong(promised, "has another SHA-256"));
    }
    Ok(())
}

/// Hands the body to the writer; gives its size.
async fn receive(
    network: &Network,
    mut response: reqwest::Response,
    promised: &Promised<'_>,
    chunks: mpsc::Sender<Bytes>,
    received: OnReceived<'_>,
) -> Result<u64, TryError> {
    let mut size = 0_u64;
    loop {
        let chunk = timeout(network.idle, response.chunk()).await;
        let chunk = chunk.map_err(|_| stands_still(promised))?;
        let chunk = chunk.map_err(|error| TryError::Again(without_address(error)))?;
        let Some(chunk) = chunk else {
            return Ok(size);
        };
        size += chunk.len() as u64;
        if size > promised.size_bytes {
            return Err(wrong(promised, "is longer"));
        }
        received(size);
        if chunks.send(chunk).await.is_err() {
            // The writer has failed and says why.
            return Ok(size);
        }
    }
}

async fn written(writer: JoinHandle<io::Result<String>>) -> Result<String, TryError> {
    writer
        .await
        .map_err(|_| TryError::Final(StepError::failed("internal_error", "the writer is gone")))?
        .map_err(|error| cannot_keep(&error))
}

fn write(mut file: File, mut incoming: mpsc::Receiver<Bytes>) -> io::Result<String> {
    let mut hasher = Sha256::new();
    while let Some(chunk) = incoming.blocking_recv() {
        hasher.update(&chunk);
        file.write_all(&chunk)?;
    }
    Ok(hex::encode(hasher.finalize()))
}

fn cannot_keep(error: &io::Error) -> TryError {
    TryError::Final(StepError::device("the input cannot be kept", error))
}

fn stands_still(promised: &Promised<'_>) -> TryError {
    TryError::Again(format!(
        "input {:?}: the download stands still",
        promised.name
    ))
}

/// Other bytes than promised do not get better by asking for them again.
fn wrong(promised: &Promised<'_>, how: &str) -> TryError {
    TryError::Final(StepError::failed(CODE, other_than_promised(promised, how)))
}

fn other_than_promised(promised: &Promised<'_>, how: &str) -> String {
    format!("input {:?} {how} than promised", promised.name)
}
