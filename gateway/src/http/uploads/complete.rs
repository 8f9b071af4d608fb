//! `POST /v1/uploads/{upload}/complete`: what was sent to the bucket becomes the upload.
//!
//! The bytes did not pass us, so they are copied to where no link leads, and the copy is read once
//! for its size and digest.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{LOCATION, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::artifact_key;
use fencepost_domain::ids::{OrgId, UploadId};
use fencepost_store::artifacts::{ArtifactError, Stored};
use fencepost_store::tx::complete_upload::{Completed, UploadState};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::readings::Read;
use crate::http::auth::Buyer;
use crate::http::blobs::refuse;
use crate::http::body::{Fields, read_json};
use crate::http::kept_uploads::upload_id;
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// How long the caller waits for a large file to be read before it is told to ask again: no longer than
/// a person who watches, and a proxy in between, gladly wait. The reading goes on meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the bucket has to say whether anything is there, before it is called away. Shorter, so that
/// whoever asks hears of it.
const LOOK: Duration = Duration::from_secs(2);

/// Completing says nothing but that.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Complete {}

/// What arrived.
#[derive(Debug, Serialize, JsonSchema)]
struct CompletedUpload {
    /// The upload.
    upload_id: UploadId,
    /// Number of its bytes.
    size_bytes: u64,
    /// Their SHA-256, 64 hexadecimal digits in lower case.
    sha256: String,
}

/// A large file that takes its time.
#[derive(Debug, Serialize, JsonSchema)]
struct UploadInReading {
    /// The upload.
    upload_id: UploadId,
    /// `reading`: ask again.
    #[schemars(extend("const" = "reading"))]
    status: &'static str,
}

/// `POST /v1/uploads/{upload}/complete`.
pub(in crate::http) fn operation() -> Operation {
    Operation::post("/v1/uploads/{upload}/complete", "complete_upload", complete)
        .says(
            "Complete an upload",
            "After the file was sent. From then on the upload does not change, whatever is sent to its \
             link. May be repeated: the answer stays the same.",
        )
        .of(Tag::Files)
        .by(Who::Buyer)
        .takes(&Complete {})
        .answers::<CompletedUpload>(200, "What arrived.")
        .answers::<UploadInReading>(
            202,
            "It is still being read: ask again. What becomes of it is kept for the next one who asks; \
             once it is there, the upload at `Location` says so too.",
        )
        .with_header("Retry-After")
        .with_header("Location")
        .refuses(&[
            ProblemCode::NotFound,
            ProblemCode::UploadIncomplete,
            ProblemCode::UploadMismatch,
            ProblemCode::TooLarge,
            ProblemCode::QuotaExceeded,
        ])
}

async fn complete(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    Fields::of_body(read_json(&request, payload).await?)?.finish()?;
    let id = upload_id(&path)?;
    let upload = find(&state, buyer.org, id).await?;
    if let Some(stored) = upload.stored {
        return Ok(completed(id, stored));
    }
    if !upload.is_open {
        return Err(not_sent(state.links.bucket().is_some()));
    }
    let reading = read(state.clone().into_inner(), buyer.org, id, upload);
    match state.readings.join(id, PATIENCE, reading).await {
        Some(read) => Ok(completed(id, read?)),
        None => Ok(HttpResponse::Accepted()
            .insert_header((RETRY_AFTER, "1"))
            .insert_header((LOCATION, format!("/v1/uploads/{id}")))
            .json(UploadInReading {
                upload_id: id,
                status: "reading",
            })),
    }
}

async fn find(state: &AppState, org: OrgId, id: UploadId) -> Result<UploadState, Problem> {
    let upload = state.store.upload_state(org, id).await?;
    upload.ok_or_else(|| Problem::not_found("upload"))
}

fn completed(id: UploadId, stored: Stored) -> HttpResponse {
    HttpResponse::Ok().json(CompletedUpload {
        upload_id: id,
        size_bytes: stored.size_bytes,
        sha256: stored.sha256_hex(),
    })
}

fn not_sent(in_bucket: bool) -> Problem {
    let detail = if in_bucket {
        "nothing was sent to the link in time: make a new upload"
    } else {
        "the file is not here: PUT it to the upload's url first, and ask again when that has answered 201"
    };
    Problem::new(ProblemCode::UploadIncomplete, detail)
}

/// Reads what was sent and makes it the upload. Another gateway, or another request, may have done so
/// since this one looked, and taken away what was sent: that is no reason to say that nothing came.
async fn read(state: Arc<AppState>, org: OrgId, id: UploadId, upload: UploadState) -> Read {
    let read = read_once(&state, id, upload).await;
    match read {
        Err(problem) if problem.code == ProblemCode::UploadIncomplete => {
            let stored = find(&state, org, id).await?.stored;
            stored.ok_or(problem)
        }
        read => read,
    }
}

async fn read_once(state: &AppState, id: UploadId, upload: UploadState) -> Read {
    // A new place for each try: what another one has read must not change.
    let place = format!("{}/{}", artifact_key::upload(id), Uuid::now_v7());
    let incoming = artifact_key::incoming_upload(id);
    look(state, &incoming).await?;
    let sealed = state.artifacts.seal(&incoming, &place).await;
    let key = sealed.map_err(|error| nothing_or(&error))?;
    let done = record(state, (id, &upload), &key).await;
    let useless = match &done {
        Ok((_, Completed::Done)) => Some(&incoming),
        // It may have been written down.
        Err(problem) if problem.code.is_retryable() => None,
        _ => Some(&key),
    };
    if let Some(useless) = useless
        && let Err(error) = state.artifacts.delete(useless).await
    {
        tracing::warn!(%error, "an object is deleted later");
    }
    done.map(|(stored, _)| stored)
}

/// Looks whether there is anything. A copy is tried for a long time, and nobody who asks should have to
/// wait for that to learn that the bucket is away.
async fn look(state: &AppState, key: &str) -> Result<(), Problem> {
    let looked = tokio::time::timeout(LOOK, state.artifacts.size(key)).await;
    let silent = |_| ArtifactError::Io("the bucket does not answer in time".to_owned());
    let size = looked.map_err(silent).and_then(|looked| looked);
    size.map_err(|error| nothing_or(&error)).map(|_| ())
}

fn nothing_or(error: &ArtifactError) -> Problem {
    match error {
        ArtifactError::NotFound(_) => {
            let detail = "nothing has arrived: PUT the file to the upload's url first";
            Problem::new(ProblemCode::UploadIncomplete, detail)
        }
        error => refuse(error),
    }
}

async fn record(
    state: &AppState,
    (id, upload): (UploadId, &UploadState),
    key: &str,
) -> Result<(Stored, Completed), Problem> {
    let max_bytes = upload.max_bytes.unsigned_abs();
    let size = state.artifacts.size(key).await;
    if size.map_err(|error| refuse(&error))? > max_bytes {
        return Err(refuse(&ArtifactError::TooLarge { max_bytes }));
    }
    let found = state.artifacts.digest(key).await;
    let found = found.map_err(|error| refuse(&error))?;
    if upload
        .declared_sha256
        .is_some_and(|declared| declared != found.sha256)
    {
        let detail = "these are not the bytes whose sha256 was declared: send them again";
        return Err(Problem::new(ProblemCode::UploadMismatch, detail));
    }
    match state
        .store
        .complete_upload(id, key.to_owned(), found)
        .await?
    {
        Completed::Done => Ok((found, Completed::Done)),
        Completed::Before(stored) => Ok((stored, Completed::Before(stored))),
        Completed::OverQuota(full) => Err(Problem::quota(&full)),
        Completed::TooLate => Err(not_sent(true)),
    }
}
