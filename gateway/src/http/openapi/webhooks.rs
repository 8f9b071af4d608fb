//! What we send by ourselves: the `webhooks` of the document, one for each type of event.

use fencepost_domain::webhook::EventType;
use fencepost_domain::webhook_message::{EndpointDisabled, JobEnded, WebhookMessage};
use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};

/// Every type of event, with the body that the dispatcher writes.
pub(super) fn describe(answers: &mut SchemaGenerator) -> Value {
    let described = EventType::ALL.map(|kind| {
        let (schema, summary) = match kind {
            EventType::JobSucceeded => (job_ended(answers), "A job has its verified output."),
            EventType::JobFailed => (job_ended(answers), "A job ended without an output."),
            EventType::JobCancelled => (
                job_ended(answers),
                "A job ended because its buyer wanted that.",
            ),
            EventType::EndpointDisabled => (
                answers.subschema_for::<WebhookMessage<EndpointDisabled>>(),
                "One of your endpoints was switched off; told to the others.",
            ),
        };
        (kind.as_str().to_owned(), event(kind, &schema, summary))
    });
    Value::Object(Map::from_iter(described))
}

fn job_ended(answers: &mut SchemaGenerator) -> schemars::Schema {
    answers.subschema_for::<WebhookMessage<JobEnded>>()
}

fn event(kind: EventType, schema: &schemars::Schema, summary: &str) -> Value {
    let header = |name: &str, about: &str| {
        json!({
            "in": "header", "name": name, "required": true, "description": about,
            "schema": { "type": "string" },
        })
    };
    let only = json!({ "properties": { "type": { "const": kind.as_str() } } });
    json!({ "post": {
        "operationId": format!("told_{}", kind.as_str().replace('.', "_")),
        "tags": ["Webhooks"],
        "summary": summary,
        "description": "Sent to endpoints that asked for this type, at least once, in no certain \
            order (`data.seq` counts the job's events). Answer 2xx within 15 seconds.",
        "security": [],
        "parameters": [
            header("webhook-id", "Id of the event; the same whenever it is sent again."),
            header("webhook-timestamp", "When it was sent, in seconds since 1970."),
            header("webhook-signature", "`v1,…` by each valid secret, as Standard Webhooks has it."),
        ],
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": { "allOf": [schema, only] } } },
        },
        "responses": {
            "2XX": { "description": "You have it." },
            "410": { "description": "Nobody is there any more: the endpoint is switched off." },
            "429": { "description": "Later, please; `Retry-After` says when." },
            "default": { "description": "It is sent again, for 28 hours." },
        },
    } })
}
