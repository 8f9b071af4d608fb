//! Numbers that come from rows: read when somebody asks for `/metrics`, so that they are true after
//! a restart and the same on every gateway.

use std::time::Duration;

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::service::ServiceName;
use fencepost_store::{Store, StoreError};

/// A scrape that waits longer gets the numbers of the one before.
const WITHIN: Duration = Duration::from_secs(2);

/// Brings the gauges up to date, as far as the database answers.
pub(super) async fn refresh(store: &Store) {
    match tokio::time::timeout(WITHIN, Box::pin(read(store))).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "gauges were not read"),
        Err(_) => tracing::warn!("gauges were not read: the database does not answer in time"),
    }
}

async fn read(store: &Store) -> Result<(), StoreError> {
    let (queue, live, slots, deliveries) = tokio::try_join!(
        store.queue_depth(),
        store.live_attempts(),
        store.slots(),
        store.pending_deliveries()
    )?;
    metrics::gauge!("fencepost_webhook_deliveries_pending").set(count(deliveries.pending));
    metrics::gauge!("fencepost_webhook_overdue_seconds").set(deliveries.overdue_seconds);
    for service in ServiceName::ALL {
        let service = service.as_str();
        let depth = queue.iter().find(|depth| depth.service == service);
        metrics::gauge!("fencepost_queue_jobs", "service" => service)
            .set(depth.map_or(0.0, |depth| count(depth.waiting)));
        metrics::gauge!("fencepost_queue_oldest_seconds", "service" => service)
            .set(depth.map_or(0.0, |depth| depth.oldest_seconds));
    }
    for status in AttemptStatus::ALL
        .into_iter()
        .filter(|status| status.is_live())
    {
        let status = status.as_str();
        let found = live.iter().find(|live| live.status == status);
        metrics::gauge!("fencepost_attempts", "status" => status)
            .set(found.map_or(0.0, |live| count(live.attempts)));
    }
    metrics::gauge!("fencepost_devices_connected").set(count(slots.devices));
    metrics::gauge!("fencepost_slots", "state" => "taken").set(count(slots.taken));
    let free = (slots.offered - slots.taken).max(0);
    metrics::gauge!("fencepost_slots", "state" => "free").set(count(free));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "no table has 2⁵² rows")]
fn count(rows: i64) -> f64 {
    rows as f64
}
