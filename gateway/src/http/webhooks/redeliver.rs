//! `POST /v1/webhook-endpoints/{endpoint}/redeliver` and `…/deliveries/{event}/redeliver`.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::EndpointId;
use fencepost_store::tx::webhooks::redeliver::{MOST_REDELIVERED, Redelivered, Which};
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;

use super::{endpoint_id, event_id, no_delivery};
use crate::http::auth::Buyer;
use crate::http::body::{Fields, read_json};
use crate::http::openapi::{Operation, Tag, Time, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// Says nothing but that.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RedeliverOne {}

/// Which deliveries are to be sent again.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RedeliverSince {
    /// Those of events then or later that failed or are held.
    since: Time,
}

/// What is in line again.
#[derive(Debug, Serialize, JsonSchema)]
struct Redelivery {
    /// How many are in line again; one that is being sent at this moment is not counted.
    redelivered: i64,
    /// Whether there may be more of them than one request puts back: ask again.
    has_more: bool,
}

pub(super) fn one_operation() -> Operation {
    let path = "/v1/webhook-endpoints/{endpoint}/deliveries/{event}/redeliver";
    Operation::post(path, "redeliver_webhook", one)
        .says(
            "Send an event again",
            "Whatever became of it, as if it had just happened: the same message, a new round of tries.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .takes(&RedeliverOne {})
        .answers::<Redelivery>(202, "It is in line.")
        .refuses(&[ProblemCode::NotFound, ProblemCode::EndpointDisabled])
}

pub(super) fn since_operation() -> Operation {
    let path = "/v1/webhook-endpoints/{endpoint}/redeliver";
    Operation::post(path, "redeliver_failed_webhooks", since)
        .says(
            "Send again what did not arrive",
            "All deliveries that failed or are held, of events since a time.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .takes(&RedeliverSince {
            since: Time(datetime!(2026-11-30 00:00 UTC)),
        })
        .answers::<Redelivery>(202, "They are in line.")
        .refuses(&[ProblemCode::NotFound, ProblemCode::EndpointDisabled])
}

/// Puts one delivery back in line, whatever became of it.
async fn one(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<(String, String)>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    Fields::of_body(read_json(&request, payload).await?)?.finish()?;
    let (endpoint, event) = (endpoint_id(&path.0)?, event_id(&path.1)?);
    redeliver(&state, buyer, endpoint, Which::One(event)).await
}

/// Puts back all that failed or are held, of events since a time.
async fn since(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_json(&request, payload).await?)?;
    let since = read_since(&mut fields)?;
    fields.finish()?;
    let endpoint = endpoint_id(&path)?;
    redeliver(&state, buyer, endpoint, Which::Since(since)).await
}

fn read_since(fields: &mut Fields) -> Result<OffsetDateTime, FieldError> {
    let expected = "a time like 2026-11-30T00:00:00Z";
    let text: String = fields.required("since", expected)?;
    OffsetDateTime::parse(&text, &Rfc3339)
        .map_err(|_| fields.complaint("since", format!("must be {expected}")))
}

async fn redeliver(
    state: &AppState,
    buyer: Buyer,
    endpoint: EndpointId,
    which: Which,
) -> Result<HttpResponse, Problem> {
    match state.store.redeliver(buyer.org, endpoint, which).await? {
        Redelivered::Queued(redelivered) => Ok(HttpResponse::Accepted().json(Redelivery {
            redelivered,
            has_more: redelivered >= MOST_REDELIVERED,
        })),
        Redelivered::Unknown => Err(no_delivery()),
        Redelivered::Disabled => Err(Problem::new(
            ProblemCode::EndpointDisabled,
            "switch it on first: PATCH {\"enabled\": true}",
        )),
    }
}
