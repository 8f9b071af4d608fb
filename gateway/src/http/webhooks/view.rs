//! How endpoints and deliveries look from outside.

use fencepost_domain::webhook::EventType;
use fencepost_store::views::{DeliveryView, EndpointView, TryView};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::http::openapi::Time;

/// A webhook endpoint. Its secret is not shown again.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookEndpoint")]
pub(super) struct Endpoint {
    /// Its id.
    id: Uuid,
    /// Where events are sent.
    url: String,
    /// Which events are sent; besides those of jobs that name the endpoint.
    #[schemars(with = "Vec<EventType>")]
    event_types: Vec<String>,
    /// Whether anything is sent.
    enabled: bool,
    /// Why nothing is.
    disabled: Option<Disabled>,
    /// Since when it has answered nothing but failures; null while it works.
    failing_since: Option<Time>,
    /// Until when the secret before signs too; null if it does not.
    previous_secret_valid_until: Option<Time>,
    /// When it was made.
    created_at: Time,
    /// Where to go from here.
    links: Links,
}

/// Why and since when an endpoint is switched off.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DisabledWebhookEndpoint")]
struct Disabled {
    /// `buyer` or `operator` did it; `gone`: it answered 410; `failing`: it answered nothing but
    /// failures for five days.
    #[schemars(extend("enum" = ["buyer", "operator", "gone", "failing"]))]
    reason: String,
    /// Since when.
    at: Option<Time>,
}

/// Where to go from an endpoint.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookEndpointLinks")]
struct Links {
    /// The endpoint.
    #[serde(rename = "self")]
    itself: String,
    /// Its deliveries.
    deliveries: String,
}

impl From<EndpointView> for Endpoint {
    fn from(view: EndpointView) -> Self {
        let itself = format!("/v1/webhook-endpoints/{}", view.id);
        let at = view.disabled_at.map(Time);
        Self {
            id: view.id,
            url: view.url,
            event_types: view.event_types,
            enabled: view.enabled,
            disabled: view.disabled_reason.map(|reason| Disabled { reason, at }),
            failing_since: view.failing_since.map(Time),
            previous_secret_valid_until: view.previous_secret_until.map(Time),
            created_at: Time(view.created_at),
            links: Links {
                deliveries: format!("{itself}/deliveries"),
                itself,
            },
        }
    }
}

/// An event on its way to an endpoint.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookDelivery")]
pub(super) struct Delivery {
    /// The event; it is sent as `webhook-id`.
    event_id: Uuid,
    /// What happened.
    #[schemars(with = "EventType")]
    event_type: String,
    /// To which job, if to one.
    job_id: Option<Uuid>,
    /// `pending`; `succeeded`; `failed`: no try is left; `held`: the endpoint is, or was, switched off.
    #[schemars(extend("enum" = ["pending", "succeeded", "failed", "held"]))]
    state: String,
    /// When it is tried next.
    next_try_at: Option<Time>,
    /// When it happened.
    created_at: Time,
    /// What came of each try, in order.
    tries: Vec<Try>,
}

/// One try of a delivery.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookTry")]
struct Try {
    /// From 1.
    number: i32,
    /// What followed; `disabled`: the endpoint was, by this try; `held`: it was already.
    #[schemars(extend("enum" = ["succeeded", "retried", "exhausted", "disabled", "held"]))]
    outcome: String,
    /// The status of the answer.
    status: Option<i32>,
    /// Why there was no answer.
    error: Option<String>,
    /// The beginning of the answer's body.
    answer: Option<String>,
    /// How long it took.
    duration_ms: i32,
    /// When it ended.
    at: Time,
}

impl From<DeliveryView> for Delivery {
    fn from(view: DeliveryView) -> Self {
        Self {
            event_id: view.event_id,
            event_type: view.kind,
            job_id: view.job_id,
            state: view.state,
            next_try_at: view.next_at.map(Time),
            created_at: Time(view.created_at),
            tries: view.tries.into_iter().map(Try::from).collect(),
        }
    }
}

impl From<TryView> for Try {
    fn from(view: TryView) -> Self {
        Self {
            number: view.number,
            outcome: view.outcome,
            status: view.status,
            error: view.error,
            answer: view.answer,
            duration_ms: view.duration_ms,
            at: Time(view.at),
        }
    }
}
