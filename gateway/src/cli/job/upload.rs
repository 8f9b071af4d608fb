//! Sending a file, also over a line that is cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use fencepost_domain::ids::UploadId;
use futures_util::StreamExt as _;
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, StatusCode};
use serde_json::json;
use tokio::fs::File;
use tokio::time::{interval, sleep};
use tokio_util::io::ReaderStream;

use super::JobError;
use super::api::{Api, NewUpload, send};
use super::asking::{Patience, Try, success};
use super::file;
use super::screen::Screen;

/// A line over which nothing has gone for so long is dead.
const STANDSTILL: Duration = Duration::from_mins(1);
/// A large file takes its time to be read where it was sent.
const READ_AGAIN: Duration = Duration::from_secs(2);
/// Pieces in which a file is read.
const CHUNK: usize = 64 * 1024;

/// Sends one file.
#[derive(Debug, Args)]
pub(super) struct UploadArgs {
    /// The file.
    file: PathBuf,
}

/// A file that the gateway has.
pub(super) struct Sent {
    pub(super) upload: UploadId,
    pub(super) sha256: String,
    pub(super) size_bytes: u64,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &UploadArgs) -> Result<(), JobError> {
    let path = args.file.display();
    file::check(&args.file).map_err(|why| JobError::Usage(format!("{path}: {why}")))?;
    screen.leaves(format!("{path} was not sent whole"));
    let sent = upload(api, screen, &args.file).await?;
    let json = json!({
        "type": "upload",
        "upload_id": sent.upload,
        "sha256": sent.sha256,
        "size_bytes": sent.size_bytes,
    });
    Ok(screen.result(&sent.upload.to_string(), &json)?)
}

/// Sends a file: all of it, or an error.
pub(super) async fn upload(api: &Api, screen: &Screen, path: &Path) -> Result<Sent, JobError> {
    let size = std::fs::metadata(path).map_or(0, |facts| facts.len());
    let bar = screen.bytes_bar("reading", size);
    let (sha256, size_bytes) = file::digest(path, &bar).await?;
    bar.finish_and_clear();
    let mut place = api.new_upload(size_bytes).await?;
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let bar = screen.bytes_bar(&name, size_bytes);
    let mut patience = Patience::new(api.patience);
    let mut is_repeat = false;
    loop {
        bar.reset();
        match once(api, path, &place, size_bytes, &bar).await {
            Ok(()) => break,
            // The answer to a try before this one was lost; the order will compare the digests.
            Err(Try::Final(JobError::Refused(problem)))
                if is_repeat && problem.status == StatusCode::CONFLICT.as_u16() =>
            {
                break;
            }
            // So many tries that the link's time was over.
            Err(Try::Final(JobError::Refused(problem)))
                if is_repeat && problem.code.as_deref() == Some("link_expired") =>
            {
                place = api.new_upload(size_bytes).await?;
                is_repeat = false;
            }
            Err(Try::Final(error)) => return Err(error),
            Err(Try::Again { why, after }) => {
                is_repeat = true;
                screen.say(&format!("sending {name} again: {why}"))?;
                patience.wait(why, after).await?;
            }
        }
    }
    bar.finish_and_clear();
    while !api.complete(place.upload_id).await? {
        sleep(READ_AGAIN).await;
    }
    screen.say(&format!(
        "sent {name}: {size_bytes} bytes, upload {}",
        place.upload_id
    ))?;
    Ok(Sent {
        upload: place.upload_id,
        sha256,
        size_bytes,
    })
}

async fn once(
    api: &Api,
    path: &Path,
    place: &NewUpload,
    size_bytes: u64,
    bar: &indicatif::ProgressBar,
) -> Result<(), Try> {
    let file = File::open(path)
        .await
        .map_err(|error| Try::Final(error.into()))?;
    let gone = Arc::new(AtomicU64::new(0));
    let (counter, shown) = (Arc::clone(&gone), bar.clone());
    let bytes = ReaderStream::with_capacity(file, CHUNK).inspect(move |chunk| {
        let length = chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        counter.fetch_add(length, Ordering::Relaxed);
        shown.inc(length);
    });
    let request = api.put(&place.url).map_err(Try::Final)?;
    let request = request
        .header(CONTENT_LENGTH, size_bytes)
        .body(Body::wrap_stream(bytes));
    let sending = async { success(send(request).await?).await.map(drop) };
    tokio::select! {
        sent = sending => sent,
        () = standstill(&gone) => Err(Try::Again { why: "nothing moves".to_owned(), after: None }),
    }
}

/// Resolves when a count has stood still for long.
async fn standstill(count: &AtomicU64) {
    let mut look = interval(Duration::from_secs(1));
    loop {
        let before = count.load(Ordering::Relaxed);
        let still = async {
            loop {
                look.tick().await;
                if count.load(Ordering::Relaxed) != before {
                    return;
                }
            }
        };
        tokio::select! {
            () = still => {}
            () = sleep(STANDSTILL) => return,
        }
    }
}
