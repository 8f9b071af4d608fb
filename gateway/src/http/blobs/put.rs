//! `PUT /v1/blobs/{link}`: written aside, checked, then put in place under the lock of whoever the
//! link belongs to.

use std::time::Duration;

use actix_web::http::header::{CONTENT_LENGTH, CONTENT_RANGE};
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_store::artifacts::{Direction, Grant, Holder, Staged};
use fencepost_store::tx::place_output::{OutputPlacing, PlaceFile, Placed};
use futures_util::{Stream, StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::{clock_regressed, open, refuse};
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// A sender that is silent for this long has gone.
const SILENCE: Duration = Duration::from_mins(1);
/// How much of a refused body is read away, so that its sender gets to read the answer.
const MAX_DRAIN_BYTES: usize = 16 * 1024 * 1024;
/// For how long.
const DRAIN_FOR: Duration = Duration::from_secs(10);

/// What has arrived.
#[derive(Debug, Serialize, JsonSchema)]
struct Stored {
    /// Number of bytes.
    size_bytes: u64,
    /// Their SHA-256, 64 hexadecimal digits in lower case.
    sha256: String,
}

/// `PUT /v1/blobs/{link}`.
pub(in crate::http) fn operation() -> Operation {
    Operation::put("/v1/blobs/{link}", "put_blob", put)
        .says(
            "Send bytes to a link",
            "Links come from uploads and from grants. A buyer's upload is written once; what an \
             attempt was granted may be written again until it commits.",
        )
        .of(Tag::Files)
        .by(Who::Bearer)
        .takes_bytes()
        .answers::<Stored>(201, "The bytes are stored.")
        .refuses(&[
            ProblemCode::InvalidRequest,
            ProblemCode::LengthMismatch,
            ProblemCode::BrokenOff,
            ProblemCode::LinkInvalid,
            ProblemCode::LinkExpired,
            ProblemCode::NotFound,
            ProblemCode::AlreadyStored,
            ProblemCode::QuotaExceeded,
            ProblemCode::UploadMismatch,
            ProblemCode::GrantClosed,
            ProblemCode::TooLarge,
            ProblemCode::ClockRegressed,
        ])
}

async fn put(
    request: HttpRequest,
    state: web::Data<AppState>,
    link: web::Path<String>,
    mut payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let result = receive(&request, &state, &link, &mut payload).await;
    if result.is_err() {
        drain(DRAIN_FOR, &mut payload).await;
    }
    result
}

async fn receive(
    request: &HttpRequest,
    state: &AppState,
    link: &str,
    payload: &mut web::Payload,
) -> Result<HttpResponse, Problem> {
    let grant = open(state, link, Direction::Put).await?;
    refuse_part(request)?;
    let declared = declared_length(request)?;
    let bytes = Box::pin(until_silent(payload));
    let staged = state
        .artifacts
        .put_stream(&grant.key, grant.max_bytes, declared, bytes)
        .await;
    let staged = staged.map_err(|error| refuse(&error))?;
    let stored = staged.stored();
    staged.make_room().await.map_err(|error| refuse(&error))?;
    place(state, &grant, staged).await?;
    Ok(HttpResponse::Created().json(Stored {
        size_bytes: stored.size_bytes,
        sha256: stored.sha256_hex(),
    }))
}

/// A PUT says the whole file: a client that sends it piece by piece must not find its first piece stored.
fn refuse_part(request: &HttpRequest) -> Result<(), Problem> {
    if !request.headers().contains_key(CONTENT_RANGE) {
        return Ok(());
    }
    let detail = "a file cannot be sent in parts: send all of it with one PUT, without this header";
    Err(Problem::new(ProblemCode::InvalidRequest, detail).at("Content-Range"))
}

fn declared_length(request: &HttpRequest) -> Result<Option<u64>, Problem> {
    let Some(value) = request.headers().get(CONTENT_LENGTH) else {
        return Ok(None);
    };
    let length = value.to_str().ok().and_then(|text| text.parse().ok());
    let problem = || {
        Problem::new(
            ProblemCode::InvalidRequest,
            "Content-Length is not a number",
        )
    };
    length.map(Some).ok_or_else(problem)
}

/// The payload, ended by an error when nothing comes for too long.
fn until_silent(payload: &mut web::Payload) -> impl Stream<Item = Result<web::Bytes, String>> {
    stream::unfold(payload, |payload| async move {
        let item = match tokio::time::timeout(SILENCE, payload.next()).await {
            Ok(None) => return None,
            Ok(Some(Ok(bytes))) => Ok(bytes),
            Ok(Some(Err(error))) => Err(error.to_string()),
            Err(_) => Err(format!("nothing came for {} s", SILENCE.as_secs())),
        };
        Some((item, payload))
    })
}

async fn place(state: &AppState, grant: &Grant, staged: Staged) -> Result<(), Problem> {
    let stored = staged.stored();
    let file: PlaceFile = Box::new(move || staged.place());
    let placed = match grant.holder {
        Holder::Attempt(attempt) => {
            let output = OutputPlacing::new(attempt, file).at(grant.key.clone(), stored.sha256);
            state.actors.shared().place.call(output).await?
        }
        Holder::Upload(upload) => {
            let (size, sha256) = (stored.size_bytes, stored.sha256);
            state.store.place_upload(upload, size, sha256, file).await?
        }
        Holder::Buyer => Placed::Closed,
    };
    match (placed, grant.holder) {
        (Placed::Done, _) => Ok(()),
        (Placed::Differs, _) => {
            let detail = "these are not the bytes whose sha256 was declared or recorded";
            Err(Problem::new(ProblemCode::UploadMismatch, detail))
        }
        (Placed::Closed, Holder::Upload(_)) => {
            let detail = "an upload is written once, and not after it was deleted: make a new one";
            Err(Problem::new(ProblemCode::AlreadyStored, detail))
        }
        (Placed::Closed, Holder::Attempt(_) | Holder::Buyer) => {
            let detail = "the attempt has committed or ended";
            Err(Problem::new(ProblemCode::GrantClosed, detail))
        }
        (Placed::OverQuota(full), _) => Err(Problem::quota(&full)),
        (Placed::ClockRegressed(by), _) => Err(clock_regressed(by)),
        (Placed::Failed(why), _) => {
            tracing::error!(why, "uploaded bytes could not be put in place");
            let detail = "the bytes could not be stored; send them again";
            Err(Problem::new(ProblemCode::Unavailable, detail))
        }
    }
}

/// Reads a refused body away, within reason.
async fn drain(limit: Duration, payload: &mut web::Payload) {
    let reading = async {
        let mut drained = 0;
        while let Some(Ok(chunk)) = payload.next().await {
            drained += chunk.len();
            if drained > MAX_DRAIN_BYTES {
                return;
            }
        }
    };
    // Over or not: the answer is what its sender waits for.
    let _ = tokio::time::timeout(limit, reading).await;
}

#[cfg(test)]
mod tests {
    use actix_web::FromRequest as _;
    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;

    use super::*;

    #[tokio::test]
    async fn a_refused_body_whose_end_does_not_come_is_not_waited_for() {
        let request = TestRequest::put().to_http_request();
        let begun = stream::iter([Ok::<_, PayloadError>(web::Bytes::from_static(b"begun"))]);
        let payload = begun.chain(stream::pending()).boxed_local();
        let mut payload = actix_web::dev::Payload::Stream { payload };
        let payload = web::Payload::from_request(&request, &mut payload).await;
        let mut payload = payload.expect("a payload is one");
        let drained = drain(Duration::from_millis(20), &mut payload);
        let drained = tokio::time::timeout(Duration::from_secs(5), drained).await;
        drained.expect("an end");
    }
}
