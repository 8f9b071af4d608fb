//! What a session would be told, as an HTTP answer. Refusals are problem+json with the wire's code and
//! what to do about it.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use fencepost_actors::session::Told;
use fencepost_protocol::{Code, Disposition, GatewayFrame};
use serde_json::{Value, json};

use crate::http::request_id;

/// The answer to a request about a lease.
pub(super) fn answer(told: Told) -> HttpResponse {
    let Told { frame, replayed } = told;
    match frame {
        GatewayFrame::Rejected {
            code,
            retry_after_ms,
            message,
            ..
        } => refusal(code, message.as_deref(), retry_after_ms),
        GatewayFrame::CommitRejected { code, message } => refusal(code, Some(&message), None),
        GatewayFrame::EventOk { .. } | GatewayFrame::ArtifactOk { .. } if !replayed => {
            HttpResponse::Created().json(body(&frame, replayed))
        }
        GatewayFrame::CommitOk { replayed: stored } => HttpResponse::Ok()
            .json(json!({ "status": "succeeded", "replayed": stored || replayed })),
        GatewayFrame::Done {
            replayed: stored, ..
        } => HttpResponse::Ok().json(json!({ "replayed": stored || replayed })),
        frame => HttpResponse::Ok()
            .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
            .json(body(&frame, replayed)),
    }
}

/// The frame's own fields.
pub(super) fn body(frame: &GatewayFrame, replayed: bool) -> Value {
    // Frames are made of what JSON can hold, so this cannot fail.
    let mut body = serde_json::to_value(frame).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("type");
        fields.insert("replayed".to_owned(), replayed.into());
    }
    body
}

/// A refusal. All are conflicts, but for our own trouble.
pub(super) fn refusal(
    code: Code,
    detail: Option<&str>,
    retry_after_ms: Option<u64>,
) -> HttpResponse {
    let status = match code {
        Code::Busy => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    let disposition = code.disposition();
    let title = match disposition {
        Disposition::Stop => "The lease is not yours, or its end is another",
        Disposition::Retry => "Ask again",
        Disposition::Fix => "The request is wrong",
    };
    let mut problem = json!({
        "type": format!("urn:fencepost:problem:{}", code.as_str()),
        "title": title,
        "status": status.as_u16(),
        "code": code.as_str(),
        "detail": detail.unwrap_or(title),
        "disposition": disposition,
        "retryable": disposition == Disposition::Retry,
        "request_id": request_id::current(),
    });
    let mut response = HttpResponse::build(status);
    if let Some(after_ms) = retry_after_ms {
        problem["retry_after_ms"] = after_ms.into();
        let seconds = after_ms.div_ceil(1_000).max(1);
        response.insert_header((RETRY_AFTER, seconds.to_string()));
    }
    response
        .insert_header((CONTENT_TYPE, "application/problem+json"))
        .body(problem.to_string())
}
