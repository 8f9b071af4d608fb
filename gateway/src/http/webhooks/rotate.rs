//! `POST /v1/webhook-endpoints/{endpoint}/rotate-secret`.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::EndpointId;
use fencepost_store::tx::webhooks::endpoints::NewSecret;
use fencepost_store::vault::WebhookSecret;
use schemars::JsonSchema;
use serde::Serialize;

use super::{endpoint_id, no_endpoint};
use crate::http::auth::Buyer;
use crate::http::body::{Fields, read_json};
use crate::http::openapi::{Operation, Tag, Time, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// A day, to give the new secret to every receiver.
const KEEP_SECONDS: i64 = 24 * 3600;
const MAX_KEEP_SECONDS: i64 = 7 * 24 * 3600;

/// How long the secret before is to sign too.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewWebhookSecret {
    /// For so many seconds; left out: a day. 0: not at all.
    #[schemars(range(min = 0, max = 604_800))]
    keep_seconds: Option<i64>,
}

/// A new secret.
#[derive(Serialize, JsonSchema)]
struct WebhookSecretRotated {
    /// The endpoint.
    id: EndpointId,
    /// What signs from now on: `whsec_…`. Shown this once.
    secret: String,
    /// Until when the secret before signs too; null if it does not.
    previous_secret_valid_until: Option<Time>,
}

pub(super) fn operation() -> Operation {
    let path = "/v1/webhook-endpoints/{endpoint}/rotate-secret";
    Operation::post(path, "rotate_webhook_secret", rotate_secret)
        .says(
            "Get a new webhook secret",
            "For a while deliveries carry two signatures, one by each secret. One that was kept from \
             an earlier rotation is gone.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .takes(&NewWebhookSecret {
            keep_seconds: Some(KEEP_SECONDS),
        })
        .answers::<WebhookSecretRotated>(200, "The secret, shown this once.")
        .refuses(&[ProblemCode::NotFound])
}

async fn rotate_secret(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_json(&request, payload).await?)?;
    let keep_seconds = fields.integer("keep_seconds", 0..=MAX_KEEP_SECONDS)?;
    fields.finish()?;
    let id = endpoint_id(&path)?;
    let secret = WebhookSecret::mint();
    let new = NewSecret {
        org: buyer.org,
        endpoint: id,
        secret: state.webhooks.vault.seal(id, &secret),
        keep_seconds: keep_seconds.unwrap_or(KEEP_SECONDS),
    };
    let rotated = state.store.rotate_secret(new).await?;
    Ok(HttpResponse::Ok().json(WebhookSecretRotated {
        id,
        secret: secret.expose(),
        previous_secret_valid_until: rotated.ok_or_else(no_endpoint)?.map(Time),
    }))
}
