//! `POST /v1/webhook-endpoints`.

use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::EndpointId;
use fencepost_domain::webhook::EventType;
use fencepost_store::tx::webhooks::endpoints::{MOST_ENDPOINTS, NewEndpoint};
use fencepost_store::vault::WebhookSecret;
use schemars::JsonSchema;
use serde::Serialize;

use super::{endpoints, read, view};
use crate::http::auth::Buyer;
use crate::http::body::{Fields, read_json};
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// An endpoint to make.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewWebhookEndpoint {
    /// An https address that leads to the public Internet.
    #[schemars(length(max = 2_000), regex(pattern = r"^https?://\S+$"))]
    url: &'static str,
    /// Which events are sent; left out: those of all jobs. Empty: only those of jobs that name the
    /// endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_types: Option<Vec<EventType>>,
}

/// An endpoint with its secret, this once.
#[derive(Serialize, JsonSchema)]
struct CreatedWebhookEndpoint {
    #[serde(flatten)]
    endpoint: view::Endpoint,
    /// What its deliveries are signed with: `whsec_…`. Shown this once.
    secret: String,
}

pub(super) fn operation() -> Operation {
    Operation::post("/v1/webhook-endpoints", "create_webhook_endpoint", create)
        .says(
            "Make a webhook endpoint",
            "From now on events are sent there, signed with the secret of the answer, which is shown \
             this once.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .takes(&NewWebhookEndpoint {
            url: "https://example.com/hooks",
            event_types: Some(vec![EventType::JobSucceeded, EventType::JobFailed]),
        })
        .answers::<CreatedWebhookEndpoint>(201, "The endpoint and its secret.")
        .with_header("Location")
        .refuses(&[ProblemCode::TooManyEndpoints])
}

async fn create(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_json(&request, payload).await?)?;
    let event_types = read::event_types(&mut fields)?.unwrap_or_else(all_of_jobs);
    let url = read::url(&mut fields, state.webhooks.guarded.guard()).await?;
    let url = url.ok_or_else(|| {
        let problem = "is missing; it must be an address like https://example.com/path";
        fields.complaint("url", problem)
    })?;
    fields.finish()?;
    let (id, secret) = (EndpointId::new(), WebhookSecret::mint());
    let new = NewEndpoint {
        id,
        org: buyer.org,
        url,
        event_types,
        secret: state.webhooks.vault.seal(id, &secret),
    };
    if !state.store.create_endpoint(new).await? {
        let detail = format!("an org may have {MOST_ENDPOINTS}; delete one that is not needed");
        return Err(Problem::new(ProblemCode::TooManyEndpoints, detail));
    }
    let endpoint = endpoints::find(&state, buyer.org, id).await?;
    Ok(HttpResponse::Created()
        .insert_header((LOCATION, format!("/v1/webhook-endpoints/{id}")))
        .json(CreatedWebhookEndpoint {
            endpoint,
            secret: secret.expose(),
        }))
}

fn all_of_jobs() -> Vec<String> {
    let jobs = EventType::ALL.iter().map(|kind| kind.as_str());
    let jobs = jobs.filter(|kind| kind.starts_with("job."));
    jobs.map(ToOwned::to_owned).collect()
}
