//! Getting a body off the wire within its limit.

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::web::{BytesMut, Payload};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::json;
use super::mend::mend_escapes;
use crate::http::problem::{Problem, ProblemCode};

/// The longest body that is taken.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// How much of a body that is too long is read away, so that its sender gets to read the answer.
const MAX_DRAIN_BYTES: usize = 16 * 1024 * 1024;

/// Reads a JSON body. An absent one is an empty object.
pub async fn read_json(request: &HttpRequest, payload: Payload) -> Result<Value, Problem> {
    let bytes = read_limited(request, payload).await?;
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    expect_json(request)?;
    Ok(json::parse(&bytes)?)
}

/// The same of an agent: what cannot be stored of its text is replaced, and the rest is read.
pub async fn read_agent_json(request: &HttpRequest, payload: Payload) -> Result<Value, Problem> {
    let bytes = read_limited(request, payload).await?;
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
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let hint = "send the header Content-Type: application/json";
    Err(Problem::new(ProblemCode::UnsupportedMediaType, hint))
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
