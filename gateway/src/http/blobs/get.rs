//! `GET` and `HEAD /v1/blobs/{link}`.

use actix_web::body::SizedStream;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, HeaderValue,
    RANGE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, ResponseError as _, web};
use fencepost_store::artifacts::{ArtifactError, Direction};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::range::{Wanted, wanted};
use super::{open, refuse};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// The object, or the one part of it that a Range header asks for.
pub async fn get(
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
    let header = request
        .headers()
        .get(RANGE)
        .and_then(|value| value.to_str().ok());
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
    describe(&mut response);
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
fn describe(response: &mut HttpResponseBuilder) {
    response
        .insert_header((CONTENT_TYPE, "application/octet-stream"))
        .insert_header((CONTENT_DISPOSITION, "attachment"))
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
