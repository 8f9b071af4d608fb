//! `GET` and `HEAD /v1/blobs/{link}`.

use actix_web::body::SizedStream;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, HeaderValue,
    IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, ResponseError as _, web};
use fencepost_domain::disposition::attachment;
use fencepost_store::artifacts::{ArtifactError, Direction};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;

use super::range::{Wanted, wanted};
use super::{open, refuse};
use crate::http::openapi::{Operation, Parameter, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// `GET /v1/blobs/{link}`.
pub(in crate::http) fn operation() -> Operation {
    described(Operation::get("/v1/blobs/{link}", "get_blob", get))
        .answers_with(200, "application/octet-stream", "The bytes.")
        .with_header("Accept-Ranges")
        .with_header("Content-Disposition")
        .answers_with(
            206,
            "application/octet-stream",
            "The part that `Range` asked for.",
        )
        .with_header("Accept-Ranges")
        .with_header("Content-Range")
}

/// `HEAD /v1/blobs/{link}`.
pub(in crate::http) fn head_operation() -> Operation {
    let head = Operation::head("/v1/blobs/{link}", "head_blob", get);
    described(head)
        .answers_nothing(200, "How many bytes there are.")
        .with_header("Accept-Ranges")
        .answers_nothing(206, "How many bytes the part has that `Range` asked for.")
        .with_header("Accept-Ranges")
        .with_header("Content-Range")
}

fn described(operation: Operation) -> Operation {
    let range = "`bytes=FIRST-LAST`, one part; anything else is ignored. So is a range beside `If-Range`: \
                 there is no `ETag` to compare with, and the bytes behind a link stay the same.";
    operation
        .says(
            "Fetch the bytes behind a link",
            "Links come from the output of a job, from artifacts, and from grants.",
        )
        .of(Tag::Files)
        .by(Who::Bearer)
        .reads(Parameter::header(
            "Range",
            json!({ "type": "string" }),
            range,
        ))
        .refuses(&[
            ProblemCode::LinkInvalid,
            ProblemCode::LinkExpired,
            ProblemCode::NotFound,
            ProblemCode::RangeNotSatisfiable,
        ])
}

/// The object, or the one part of it that a Range header asks for.
async fn get(
    request: HttpRequest,
    state: web::Data<AppState>,
    link: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let grant = open(&state, &link, Direction::Get).await?;
    let size = state
        .artifacts
        .size(&grant.key)
        .await
        .map_err(|error| refuse(&error))?;
    // A condition that names a validator which we never gave out is not met.
    let is_conditional = request.headers().contains_key(IF_RANGE);
    let header = request.headers().get(RANGE);
    let header = header.filter(|_| !is_conditional);
    let header = header.and_then(|value| value.to_str().ok());
    let (mut response, range) = match wanted(header, size) {
        Wanted::Nothing => return Ok(not_satisfiable(size)),
        Wanted::Whole => (HttpResponse::Ok(), None),
        Wanted::Part(range) => {
            let mut response = HttpResponse::PartialContent();
            let shown = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            response.insert_header((CONTENT_RANGE, shown));
            (response, Some(range))
        }
    };
    describe(&mut response, grant.file_name.as_deref());
    let length = range.as_ref().map_or(size, |range| range.end - range.start);
    if request.method() == Method::HEAD {
        let nothing = stream::empty::<Result<web::Bytes, ArtifactError>>();
        return Ok(response.body(SizedStream::new(length, nothing)));
    }
    let object = state.artifacts.get_range(&grant.key, range).await;
    let object = object.map_err(|error| refuse(&error))?;
    // The object may have been replaced since we asked for its size: what counts is what we opened.
    let length = object.range.end - object.range.start;
    let bytes = object.stream.inspect_err(|error| {
        tracing::error!(%error, "a download broke off on our side");
    });
    Ok(response.body(SizedStream::new(length, bytes.boxed())))
}

/// Bytes of strangers: to be saved, never to be shown or run by a browser.
fn describe(response: &mut HttpResponseBuilder, name: Option<&str>) {
    response
        .insert_header((CONTENT_TYPE, "application/octet-stream"))
        .insert_header((CONTENT_DISPOSITION, attachment(name)))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((ACCEPT_RANGES, "bytes"))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("private, no-store")));
}

fn not_satisfiable(size: u64) -> HttpResponse {
    let detail = format!("the object has {size} bytes");
    let mut response = Problem::new(ProblemCode::RangeNotSatisfiable, detail).error_response();
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
        response.headers_mut().insert(CONTENT_RANGE, value);
    }
    response
}
