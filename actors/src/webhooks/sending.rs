//! One try of one delivery.

use std::time::{Duration, Instant};

use fencepost_domain::ids::EndpointId;
use fencepost_egress::{Answer, Limits};
use fencepost_store::tx::webhooks::claim::Claimed;
use fencepost_store::tx::webhooks::record::{Sent, Try};
use fencepost_store::vault::{Sealed, WebhookSecret};
use time::OffsetDateTime;

use super::{Webhooks, message, retry_after};

/// For the address, the connection, the message and the answer. Half of what a claim lasts.
const LIMITS: Limits = Limits {
    total: Duration::from_secs(15),
    body_bytes: 64 * 1024,
};
/// How much of an answer is kept for the buyer to see.
const SHOWN_BYTES: usize = 1_000;

/// Sends a delivery; what came of it, to be recorded.
pub(super) async fn send(webhooks: Webhooks, delivery: Claimed) -> Try {
    let began = Instant::now();
    let sent = attempt(&webhooks, &delivery).await;
    Try {
        endpoint: delivery.endpoint,
        event: delivery.event,
        claim: delivery.claim,
        sent,
        took: began.elapsed(),
    }
}

async fn attempt(webhooks: &Webhooks, delivery: &Claimed) -> Sent {
    let Some(secrets) = open(webhooks, delivery) else {
        tracing::error!(
            endpoint.id = %delivery.endpoint,
            "a webhook secret was sealed with another key: give the old one back, or have the buyer \
             rotate it"
        );
        return Sent::NotSent;
    };
    let Some(message) = message::write(delivery, &secrets) else {
        tracing::error!(event.id = %delivery.event, "an event cannot be written");
        return Sent::NotSent;
    };
    let Ok(url) = delivery.url.parse() else {
        return Sent::Failed("the address cannot be understood".to_owned());
    };
    let asking = webhooks
        .guarded
        .post(&url, &message.headers, message.body, LIMITS);
    match asking.await {
        Ok(answer) => answered(&answer, delivery.now),
        Err(failed) => Sent::Failed(failed.to_string()),
    }
}

fn open(webhooks: &Webhooks, delivery: &Claimed) -> Option<Vec<WebhookSecret>> {
    let endpoint: EndpointId = delivery.endpoint;
    let open = |sealed: &Sealed| webhooks.vault.open(endpoint, sealed);
    let first = open(&delivery.secret)?;
    // One that cannot be read any more is not missed: it would sign for a while only.
    let second = delivery.previous_secret.as_ref().and_then(open);
    Some([Some(first), second].into_iter().flatten().collect())
}

fn answered(answer: &Answer, now: OffsetDateTime) -> Sent {
    let shown = &answer.body[..answer.body.len().min(SHOWN_BYTES)];
    let header = answer.retry_after.as_deref();
    Sent::Answered {
        status: answer.status,
        retry_after: header.and_then(|header| retry_after::parse(header, now)),
        body: String::from_utf8_lossy(shown).into_owned(),
    }
}
