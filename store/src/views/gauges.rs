//! Gauges: what is, counted from rows at the moment of asking, so that no restart makes them lie.

use crate::error::StoreError;
use crate::run::Store;

/// How much waits, by service.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueDepth {
    /// The service.
    pub service: String,
    /// How many jobs wait.
    pub waiting: i64,
    /// How long the oldest has waited, in seconds.
    pub oldest_seconds: f64,
}

/// How many live attempts there are in a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAttempts {
    /// The status.
    pub status: String,
    /// How many.
    pub attempts: i64,
}

/// The slots of all devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Devices that are connected, as far as any gateway has seen.
    pub devices: i64,
    /// Slots of connected devices that may get work.
    pub offered: i64,
    /// Slots that live attempts take, wherever their devices are.
    pub taken: i64,
}

impl Store {
    /// What waits, by service.
    pub async fn queue_depth(&self) -> Result<Vec<QueueDepth>, StoreError> {
        self.read("queue_depth", |mut conn| async move {
            sqlx::query_as!(
                QueueDepth,
                r#"-- queue_depth
                select service, count(*) as "waiting!",
                    coalesce(extract(epoch from authority_now() - min(created_at)), 0)::float8
                        as "oldest_seconds!"
                from jobs where queue_key is not null or wake_at is not null group by service"#
            )
            .fetch_all(&mut *conn)
            .await
        })
        .await
    }

    /// Live attempts, by status.
    pub async fn live_attempts(&self) -> Result<Vec<LiveAttempts>, StoreError> {
        self.read("live_attempts", |mut conn| async move {
            sqlx::query_as!(
                LiveAttempts,
                r#"-- live_attempts
                select status::text as "status!", count(*) as "attempts!"
                from attempts where ended_at is null group by status"#
            )
            .fetch_all(&mut *conn)
            .await
        })
        .await
    }

    /// The slots of all devices.
    pub async fn slots(&self) -> Result<Slots, StoreError> {
        self.read("slots", |mut conn| async move {
            sqlx::query_as!(
                Slots,
                r#"-- slots
                select count(*) as "devices!",
                    coalesce(sum(slots) filter (where not draining), 0) as "offered!",
                    (select count(*) from attempts where ended_at is null) as "taken!"
                from devices
                where enabled and current_session is not null and disconnected_at is null
                    and gateway_runs(gateway_id)"#
            )
            .fetch_one(&mut *conn)
            .await
        })
        .await
    }
}
