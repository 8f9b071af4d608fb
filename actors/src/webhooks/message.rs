//! What is sent: a small body, and headers that prove whose it is.

use fencepost_domain::webhook::EventType;
use fencepost_domain::webhook_message::{EventData, WebhookMessage};
use fencepost_store::tx::webhooks::claim::Claimed;
use fencepost_store::vault::WebhookSecret;
use standardwebhooks::{
    HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook,
};

/// A message, signed.
pub(super) struct Message {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

/// The message of a delivery, with a signature by each secret; `None` if it cannot be written, which
/// would be a mistake of ours.
pub(super) fn write(delivery: &Claimed, secrets: &[WebhookSecret]) -> Option<Message> {
    let kind = EventType::parse(&delivery.kind)?;
    let message = WebhookMessage {
        r#type: kind,
        timestamp: delivery.happened_at,
        data: EventData::read(kind, &delivery.body).ok()?,
    };
    let body = serde_json::to_vec(&message).ok()?;
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
