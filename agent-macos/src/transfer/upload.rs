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

use super::link::Link;
use super::{LeaseWatch, Network, StepError, TryError, refused_by, with_retries, without_address};

const CHUNK: usize = 256 * 1024;
const CODE: &str = "upload_failed";

/// PUTs `file`, whose size is known, to `link`. `sent` holds the bytes handed to the network so far.
pub async fn upload(
    network: &Network,
    link: &mut Link<'_>,
    (file, size_bytes): (&Path, u64),
    live: &LeaseWatch,
    sent: &Arc<AtomicU64>,
) -> Result<(), StepError> {
    with_retries(CODE, link, |url| {
        try_once(network, url, (file, size_bytes), live, sent)
    })
    .await
}

async fn try_once(
    network: &Network,
    url: Url,
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
    let sending = network
        .client
        .put(url)
        .header(CONTENT_LENGTH, size_bytes)
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(reqwest::Body::wrap_stream(chunks))
        .send();
    let answer = tokio::select! {
        answer = sending => answer,
        () = stands_still(network, sent) => {
            return Err(TryError::Again("the upload stands still".to_owned()));
        }
    };
    let response = match answer {
        Ok(response) => response,
        Err(error) => {
            live.check().map_err(TryError::Final)?;
            return Err(TryError::Again(without_address(error)));
        }
    };
    if response.status().is_success() {
        return Ok(());
    }
    Err(refused_by(CODE, &response, "the upload"))
}

/// Waits until nothing more has been taken for too long; the answer itself is bounded by this too.
/// A limit on the whole request would cut every upload that takes longer.
async fn stands_still(network: &Network, sent: &AtomicU64) {
    let mut before = None;
    loop {
        let now = sent.load(Ordering::Relaxed);
        if before == Some(now) {
            return;
        }
        before = Some(now);
        tokio::time::sleep(network.idle).await;
    }
}
