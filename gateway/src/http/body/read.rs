//! Getting a body off the wire within its limit.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::web::{BytesMut, Payload};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::json;
use super::mend::mend_escapes;
use crate::http::problem::{Problem, ProblemCode};

/// The longest body that is taken.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// How long a body may take. Whoever says the rest later, or one byte now and then, would hold a
/// connection for as long as they like.
const WITHIN: Duration = Duration::from_mins(1);
/// How much of a body that is too long is read away, so that its sender gets to read the answer.
const MAX_DRAIN_BYTES: usize = 16 * 1024 * 1024;

/// Reads a JSON body. An absent one is an empty object.
pub async fn read_json(request: &HttpRequest, payload: Payload) -> Result<Value, Problem> {
    let bytes = read_within(WITHIN, request, payload).await?;
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    expect_json(request)?;
    Ok(json::parse(&bytes)?)
}

/// The same of an agent: what cannot be stored of its text is replaced, and the rest is read.
pub async fn read_agent_json(request: &HttpRequest, payload: Payload) -> Result<Value, Problem> {
    let bytes = read_within(WITHIN, request, payload).await?;
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    expect_json(request)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(json::parse(mend_escapes(&text).as_bytes())?)
}

fn expect_json(request: &HttpRequest) -> Result<(), Problem> {
    let sent = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = sent
        .unwrap_or("application/json")
        .split(';')
        .next()
        .unwrap_or("")
        .trim();
    let hint = if !essence.eq_ignore_ascii_case("application/json") {
        "send the header Content-Type: application/json"
    } else if is_packed(request) {
        "send the JSON as it is, without Content-Encoding"
    } else {
        return Ok(());
    };
    Err(Problem::new(ProblemCode::UnsupportedMediaType, hint))
}

/// Whether the body is said to be packed, as with gzip. Nothing here unpacks.
fn is_packed(request: &HttpRequest) -> bool {
    let sent = request.headers().get(CONTENT_ENCODING);
    sent.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

async fn read_within(
    limit: Duration,
    request: &HttpRequest,
    payload: Payload,
) -> Result<BytesMut, Problem> {
    let read = tokio::time::timeout(limit, read_limited(request, payload)).await;
    read.unwrap_or_else(|_| {
        let detail = format!("the body was not here within {} s", limit.as_secs());
        Err(Problem::new(ProblemCode::BrokenOff, detail))
    })
}

async fn read_limited(request: &HttpRequest, mut payload: Payload) -> Result<BytesMut, Problem> {
    let announced = request.headers().get(CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > MAX_DRAIN_BYTES) {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    let mut received = 0;
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| {
            Problem::new(
                ProblemCode::BrokenOff,
                format!("the body cannot be read: {error}"),
            )
        })?;
        received += chunk.len();
        if received > MAX_DRAIN_BYTES {
            break;
        }
        if received <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&chunk);
        }
    }
    if received > MAX_BODY_BYTES {
        return Err(too_large());
    }
    Ok(bytes)
}

fn too_large() -> Problem {
    let detail = format!("a body may have at most {MAX_BODY_BYTES} bytes");
    Problem::new(ProblemCode::TooLarge, detail)
}

#[cfg(test)]
mod tests {
    use actix_web::FromRequest as _;
    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use actix_web::web::Bytes;
    use futures_util::stream;

    use super::*;

    /// A body of which this much comes, and then nothing.
    async fn stalled(bytes: &'static [u8]) -> (HttpRequest, Payload) {
        let request = TestRequest::post().to_http_request();
        let begun = stream::iter([Ok::<_, PayloadError>(Bytes::from_static(bytes))]);
        let stream = begun.chain(stream::pending()).boxed_local();
        let mut payload = actix_web::dev::Payload::Stream { payload: stream };
        let payload = Payload::from_request(&request, &mut payload).await;
        (request, payload.expect("a payload is one"))
    }

    #[tokio::test]
    async fn a_body_whose_end_does_not_come_is_refused_after_a_while() {
        let (request, payload) = stalled(b"{\"service\":").await;
        let read = read_within(Duration::from_millis(20), &request, payload);
        let problem = tokio::time::timeout(Duration::from_secs(5), read).await;
        let problem = problem.expect("an answer").expect_err("half a body");
        assert_eq!(problem.code, ProblemCode::BrokenOff);
    }

    #[test]
    fn packed_json_is_refused_and_the_header_is_named() {
        for (packing, fits) in [("gzip", false), ("br", false), ("identity", true)] {
            let request = TestRequest::post().insert_header((CONTENT_ENCODING, packing));
            let judged = expect_json(&request.to_http_request());
            let problem = judged.as_ref().err();
            assert_eq!(judged.is_ok(), fits, "{packing}");
            let names_it = |problem: &Problem| problem.detail.contains("Content-Encoding");
            assert!(problem.is_none_or(names_it), "{packing}");
        }
    }
}
