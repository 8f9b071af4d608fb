//! What is sent: a small body, and headers that prove whose it is.

use fencepost_store::tx::webhooks::claim::Claimed;
use fencepost_store::vault::WebhookSecret;
use serde::Serialize;
use serde_json::Value;
use standardwebhooks::{
    HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook,
};
use time::format_description::well_known::Rfc3339;

/// A message, signed.
pub(super) struct Message {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    r#type: &'a str,
    timestamp: String,
    data: &'a Value,
}

/// The message of a delivery, with a signature by each secret; `None` if it cannot be written, which
/// would be a mistake of ours.
pub(super) fn write(delivery: &Claimed, secrets: &[WebhookSecret]) -> Option<Message> {
    let envelope = Envelope {
        r#type: &delivery.kind,
        timestamp: delivery.happened_at.format(&Rfc3339).ok()?,
        data: &delivery.body,
    };
    let body = serde_json::to_vec(&envelope).ok()?;
    let (id, at) = (delivery.event.to_string(), delivery.now.unix_timestamp());
    let sign = |secret: &WebhookSecret| {
        let webhook = Webhook::from_bytes(secret.bytes().to_vec()).ok()?;
        webhook.sign(&id, at, &body).ok()
    };
    let signatures: Option<Vec<String>> = secrets.iter().map(sign).collect();
    let signature = signatures?.join(" ");
    Some(Message {
        headers: vec![
            ("content-type", "application/json".to_owned()),
            (HEADER_WEBHOOK_ID, id),
            (HEADER_WEBHOOK_TIMESTAMP, at.to_string()),
            (HEADER_WEBHOOK_SIGNATURE, signature),
        ],
        body,
    })
}
