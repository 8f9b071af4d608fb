//! What a session would be told, as an HTTP answer. Refusals are problem+json with the wire's code and
//! what to do about it.

use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use fencepost_actors::session::Told;
use fencepost_protocol::{Directive, GatewayFrame, PartLinks};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::openapi::Time;
use crate::http::problem::Problem;

/// The lease goes on, unless the directive says stop.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Renewed {
    /// The end of the lease, by our clock.
    lease_expires_at: Time,
    /// The rest of the lease, for a deadline on your own clock.
    lease_remaining_ms: u64,
    /// Whether to go on. At `stop` the job is being cancelled: stop, and end the lease.
    directive: Directive,
    /// Why to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether this answers an earlier request that had the same id.
    replayed: bool,
}

/// An event or an artifact is stored.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Written {
    /// Whether it was stored before.
    replayed: bool,
    /// Whether the lease that was named is live.
    lease_live: bool,
}

/// Links to some of the parts of an output. When all are there, the commit makes them one object.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Parts {
    /// The size of every part but the last.
    part_bytes: u64,
    /// The number of the part that the first link is for; the others follow.
    first_part: u32,
    /// Where to PUT them. Ask again for those after the last.
    urls: Vec<String>,
}

impl From<PartLinks> for Parts {
    fn from(links: PartLinks) -> Self {
        let PartLinks {
            part_bytes,
            first_part,
            urls,
        } = links;
        Self {
            part_bytes,
            first_part,
            urls,
        }
    }
}

/// A link.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GrantedLink {
    /// Where to read or write; absolute, or relative to this gateway.
    #[schemars(extend("format" = "uri-reference"))]
    url: String,
    /// The object behind it.
    object_key: String,
    /// Links to parts, if they were asked for and there are such.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Parts>,
    /// Whether this answers an earlier request that had the same id.
    replayed: bool,
}

/// The output is verified and published.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Committed {
    /// `succeeded`.
    #[schemars(extend("const" = "succeeded"))]
    status: &'static str,
    /// Whether this is the stored answer to an earlier identical commit.
    replayed: bool,
}

/// It is done.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Done {
    /// Whether this is the stored answer to an earlier identical request.
    replayed: bool,
}

/// The answer to a request about a lease.
pub(super) fn answer(told: Told) -> Result<HttpResponse, Problem> {
    let Told { frame, replayed } = told;
    Ok(match frame {
        GatewayFrame::Rejected {
            code,
            retry_after_ms,
            message,
            ..
        } => return Err(Problem::of_lease(code, message, retry_after_ms)),
        GatewayFrame::CommitRejected { code, message } => {
            return Err(Problem::of_lease(code, Some(message), None));
        }
        GatewayFrame::EventOk { lease_live, .. } | GatewayFrame::ArtifactOk { lease_live, .. } => {
            let mut response = if replayed {
                private(HttpResponse::Ok())
            } else {
                HttpResponse::Created()
            };
            response.json(Written {
                replayed,
                lease_live,
            })
        }
        GatewayFrame::CommitOk { replayed: stored } => HttpResponse::Ok().json(Committed {
            status: "succeeded",
            replayed: stored || replayed,
        }),
        GatewayFrame::Done {
            replayed: stored, ..
        } => HttpResponse::Ok().json(Done {
            replayed: stored || replayed,
        }),
        GatewayFrame::ProgressOk {
            lease_expires_at,
            lease_remaining_ms,
            directive,
            reason,
        } => private(HttpResponse::Ok()).json(Renewed {
            lease_expires_at: Time(lease_expires_at),
            lease_remaining_ms,
            directive,
            reason,
            replayed,
        }),
        GatewayFrame::Granted {
            url,
            object_key,
            parts,
        } => private(HttpResponse::Ok()).json(GrantedLink {
            url,
            object_key,
            parts: parts.map(Parts::from),
            replayed,
        }),
        frame => return Err(Problem::internal(&Unexpected(frame))),
    })
}

/// An answer that nobody should keep.
pub(super) fn private(mut response: HttpResponseBuilder) -> HttpResponseBuilder {
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    response
}

/// A frame that is never told to a caller without a session.
#[derive(Debug, thiserror::Error)]
#[error("a request about a lease was answered by a frame for sessions: {0:?}")]
struct Unexpected(GatewayFrame);
