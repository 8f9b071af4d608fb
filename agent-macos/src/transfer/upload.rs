//! Sends the output. The lease is asked before every chunk: an upload that was frozen halfway does
//! not go on after its lease has ended.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt as _;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tokio_util::io::ReaderStream;
use url::Url;

use super::{LeaseWatch, StepError, TryError, is_passing, with_retries, without_address};

const CHUNK: usize = 256 * 1024;
const CODE: &str = "upload_failed";

/// PUTs `file`, whose size is known, to `url`. `sent` holds the bytes handed to the network so far.
pub async fn upload(
    client: &reqwest::Client,
    url: &Url,
    (file, size_bytes): (&Path, u64),
    live: &LeaseWatch,
    sent: &Arc<AtomicU64>,
) -> Result<(), StepError> {
    with_retries(CODE, || {
        try_once(client, url, (file, size_bytes), live, sent)
    })
    .await
}

async fn try_once(
    client: &reqwest::Client,
    url: &Url,
    (file, size_bytes): (&Path, u64),
    live: &LeaseWatch,
    sent: &Arc<AtomicU64>,
) -> Result<(), TryError> {
    live.check().map_err(TryError::Final)?;
    let source = tokio::fs::File::open(file)
        .await
        .map_err(|error| TryError::Final(StepError::device("the output cannot be read", &error)))?;
    sent.store(0, Ordering::Relaxed);
    let (watch, counter) = (live.clone(), Arc::clone(sent));
    let chunks = ReaderStream::with_capacity(source, CHUNK).map(move |chunk| {
        watch
            .check()
            .map_err(|_| io::Error::other("the lease has ended"))?;
        let chunk = chunk?;
        counter.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        Ok::<_, io::Error>(chunk)
    });
    let response = client
        .put(url.clone())
        .header(CONTENT_LENGTH, size_bytes)
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(reqwest::Body::wrap_stream(chunks))
        .send()
        .await
        .map_err(|error| TryError::Again(without_address(error)))?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let message = format!("the upload was answered with HTTP {status}");
    Err(if is_passing(status) {
        TryError::Again(message)
    } else {
        TryError::Final(StepError::failed(CODE, message))
    })
}
