//! Sends the output. The lease is asked before every chunk: an upload that was frozen halfway does
//! not go on after its lease has ended.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt as _;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;
use url::Url;

use super::link::Link;
use super::{LeaseWatch, Network, StepError, TryError, refused_by, unanswered, with_retries};

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
    with_retries(CODE, network, link, |url| {
        try_once(network, url, (file, 0..size_bytes), live, sent)
    })
    .await
}

/// The same for a file that may be sent in parts, one after the other, each as often as it takes.
pub async fn upload_in_parts(
    network: &Network,
    link: &mut Link<'_>,
    (file, size_bytes): (&Path, u64),
    live: &LeaseWatch,
    sent: &Arc<AtomicU64>,
) -> Result<(), StepError> {
    let Some(part_bytes) = link.turn_to_part(1, CODE).await?.filter(|bytes| *bytes > 0) else {
        return upload(network, link, (file, size_bytes), live, sent).await;
    };
    let mut start = 0;
    loop {
        let part = start..size_bytes.min(start + part_bytes);
        start = part.end;
        with_retries(CODE, network, link, |url| {
            try_once(network, url, (file, part.clone()), live, sent)
        })
        .await?;
        if start == size_bytes {
            return Ok(());
        }
        link.turn_to_next_part(CODE).await?;
    }
}

async fn try_once(
    network: &Network,
    url: Url,
    (file, part): (&Path, Range<u64>),
    live: &LeaseWatch,
    sent: &Arc<AtomicU64>,
) -> Result<(), TryError> {
    live.check().map_err(TryError::Final)?;
    let length = part.end - part.start;
    let source = open_at(file, part.start)
        .await
        .map_err(|error| TryError::Final(StepError::device("the output cannot be read", &error)))?
        .take(length);
    sent.store(part.start, Ordering::Relaxed);
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
        .header(CONTENT_LENGTH, length)
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
            return Err(unanswered(error));
        }
    };
    if response.status().is_success() {
        return Ok(());
    }
    Err(refused_by(CODE, &response, "the upload"))
}

async fn open_at(file: &Path, start: u64) -> io::Result<tokio::fs::File> {
    let mut source = tokio::fs::File::open(file).await?;
    source.seek(io::SeekFrom::Start(start)).await?;
    Ok(source)
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
