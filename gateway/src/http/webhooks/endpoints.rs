//! `/v1/webhook-endpoints` and `/v1/webhook-endpoints/{endpoint}`: read, changed, deleted.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::{EndpointId, OrgId};
use fencepost_domain::webhook::EventType;
use fencepost_store::tx::webhooks::change::EndpointChange;
use schemars::JsonSchema;
use serde::Serialize;

use super::{endpoint_id, no_endpoint, read, view};
use crate::http::auth::Buyer;
use crate::http::body::{Fields, read_json};
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// All endpoints of an org.
#[derive(Debug, Serialize, JsonSchema)]
struct WebhookEndpoints {
    /// The oldest first.
    webhook_endpoints: Vec<view::Endpoint>,
}

/// What is to be different; what is left out stays.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WebhookEndpointChange {
    /// An https address that leads to the public Internet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2_000), regex(pattern = r"^https?://\S+$"))]
    url: Option<&'static str>,
    /// Which events are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_types: Option<Vec<EventType>>,
    /// Whether anything is sent. What was held while it was off stays held until it is redelivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

const ONE: &str = "/v1/webhook-endpoints/{endpoint}";

pub(super) fn list_operation() -> Operation {
    Operation::get("/v1/webhook-endpoints", "list_webhook_endpoints", list)
        .says(
            "Your webhook endpoints",
            "All of them; their secrets are not shown.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .answers::<WebhookEndpoints>(200, "The endpoints.")
}

pub(super) fn get_operation() -> Operation {
    Operation::get(ONE, "get_webhook_endpoint", get)
        .says("A webhook endpoint", "Its state, without its secret.")
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .answers::<view::Endpoint>(200, "The endpoint.")
        .refuses(&[ProblemCode::NotFound])
}

pub(super) fn change_operation() -> Operation {
    Operation::patch(ONE, "change_webhook_endpoint", change)
        .says(
            "Change a webhook endpoint",
            "What is left out stays. `enabled` switches it off and on again.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .takes(&WebhookEndpointChange {
            url: None,
            event_types: None,
            enabled: Some(true),
        })
        .answers::<view::Endpoint>(200, "The endpoint as it is now.")
        .refuses(&[ProblemCode::NotFound])
}

pub(super) fn delete_operation() -> Operation {
    Operation::delete(ONE, "delete_webhook_endpoint", delete)
        .says(
            "Delete a webhook endpoint",
            "Nothing is sent there any more, and its secrets are gone.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .answers_nothing(204, "It is deleted.")
        .refuses(&[ProblemCode::NotFound])
}

/// All of the org's.
async fn list(buyer: Buyer, state: web::Data<AppState>) -> Result<HttpResponse, Problem> {
    let found = state.store.endpoints(Some(buyer.org), None).await?;
    Ok(HttpResponse::Ok().json(WebhookEndpoints {
        webhook_endpoints: found.into_iter().map(view::Endpoint::from).collect(),
    }))
}

async fn get(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let endpoint = find(&state, buyer.org, endpoint_id(&path)?).await?;
    Ok(HttpResponse::Ok().json(endpoint))
}

async fn change(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_json(&request, payload).await?)?;
    let change = EndpointChange {
        event_types: read::event_types(&mut fields)?,
        enabled: fields.optional("enabled", "true or false")?,
        url: read::url(&mut fields, state.webhooks.guarded.guard()).await?,
    };
    fields.finish()?;
    let endpoint = endpoint_id(&path)?;
    if !state
        .store
        .change_endpoint(buyer.org, endpoint, change)
        .await?
    {
        return Err(no_endpoint());
    }
    Ok(HttpResponse::Ok().json(find(&state, buyer.org, endpoint).await?))
}

async fn delete(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let endpoint = endpoint_id(&path)?;
    if state.store.delete_endpoint(buyer.org, endpoint).await? {
        Ok(HttpResponse::NoContent().finish())
    } else {
        Err(no_endpoint())
    }
}

pub(super) async fn find(
    state: &AppState,
    org: OrgId,
    endpoint: EndpointId,
) -> Result<view::Endpoint, Problem> {
    let mut found = state.store.endpoints(Some(org), Some(endpoint)).await?;
    found
        .pop()
        .map(view::Endpoint::from)
        .ok_or_else(no_endpoint)
}
