//! Webhook endpoints and what became of their deliveries.

use fencepost_domain::ids::{EndpointId, OrgId, OutboxId};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Store;

/// An endpoint, without its secrets.
#[derive(Clone)]
pub struct EndpointView {
    /// Its id.
    pub id: Uuid,
    /// Whose it is.
    pub org_id: Uuid,
    /// The address, which may be a secret.
    pub url: String,
    /// What is sent there.
    pub event_types: Vec<String>,
    /// Whether anything is.
    pub enabled: bool,
    /// Why not.
    pub disabled_reason: Option<String>,
    /// Since when not.
    pub disabled_at: Option<OffsetDateTime>,
    /// Until when the secret before signs too.
    pub previous_secret_until: Option<OffsetDateTime>,
    /// Since when there were only failures.
    pub failing_since: Option<OffsetDateTime>,
    /// When it was made.
    pub created_at: OffsetDateTime,
}

/// A delivery.
#[derive(Debug, Clone)]
pub struct DeliveryView {
    /// The event.
    pub event_id: Uuid,
    /// What happened.
    pub kind: String,
    /// To which job, if to one.
    pub job_id: Option<Uuid>,
    /// `pending`, `succeeded`, `failed` or `held`.
    pub state: String,
    /// When it is tried next.
    pub next_at: Option<OffsetDateTime>,
    /// When it happened.
    pub created_at: OffsetDateTime,
    /// The tries, in order.
    pub tries: Vec<TryView>,
}

/// One try of a delivery.
#[derive(Debug, Clone)]
pub struct TryView {
    event_id: Uuid,
    /// From 1.
    pub number: i32,
    /// What followed.
    pub outcome: String,
    /// The answer's status.
    pub status: Option<i32>,
    /// Why there was no answer.
    pub error: Option<String>,
    /// The beginning of the answer.
    pub answer: Option<String>,
    /// How long it took.
    pub duration_ms: i32,
    /// When.
    pub at: OffsetDateTime,
}

/// Which deliveries to list.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// Only those in this state.
    pub state: Option<String>,
    /// Only that of this event.
    pub event: Option<OutboxId>,
    /// Only those of events before this one (newest come first).
    pub before: Option<OutboxId>,
    /// At most so many.
    pub limit: i64,
}

/// How much waits to be delivered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PendingDeliveries {
    /// How many deliveries.
    pub pending: i64,
    /// How long the one that is longest overdue has waited, in seconds.
    pub overdue_seconds: f64,
}

impl Store {
    /// Endpoints of one org or of all, the oldest first; of all, or the one of an id.
    pub async fn endpoints(
        &self,
        org: Option<OrgId>,
        endpoint: Option<EndpointId>,
    ) -> Result<Vec<EndpointView>, StoreError> {
        self.read("endpoints", move |mut conn| async move {
            sqlx::query_as!(
                EndpointView,
                r#"-- endpoints
                select id, org_id, url, event_types, enabled, disabled_reason, disabled_at,
                    case when previous_secret_until > authority_now()
                        then previous_secret_until end as previous_secret_until,
                    failing_since, created_at
                from webhook_endpoints
                where deleted_at is null and ($1::uuid is null or org_id = $1)
                    and ($2::uuid is null or id = $2)
                order by id"#,
                org.map(|org| org.0),
                endpoint.map(|endpoint| endpoint.0)
            )
            .fetch_all(&mut *conn)
            .await
        })
        .await
    }

    /// Deliveries of an endpoint of `org`, newest first; `None` if it has no such endpoint.
    pub async fn deliveries(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        filter: DeliveryFilter,
    ) -> Result<Option<Vec<DeliveryView>>, StoreError> {
        if self.endpoints(Some(org), Some(endpoint)).await?.is_empty() {
            return Ok(None);
        }
        let found = self.read("deliveries", move |mut conn| async move {
            let rows = sqlx::query!(
                r#"-- deliveries
                select d.event_id, o.kind, o.job_id, d.state, d.next_at, d.created_at
                from webhook_deliveries d join outbox o on o.id = d.event_id
                where d.endpoint_id = $1 and ($2::text is null or d.state = $2)
                    and ($3::uuid is null or d.event_id < $3)
                    and ($4::uuid is null or d.event_id = $4)
                order by d.event_id desc limit $5"#,
                endpoint.0,
                filter.state,
                filter.before.map(|event| event.0),
                filter.event.map(|event| event.0),
                filter.limit
            )
            .fetch_all(&mut *conn)
            .await?;
            let ids: Vec<Uuid> = rows.iter().map(|row| row.event_id).collect();
            let tries = sqlx::query_as!(
                TryView,
                r#"-- deliveries: tries
                select event_id, number, outcome, status, error, answer, duration_ms, at
                from webhook_tries where endpoint_id = $1 and event_id = any($2)
                order by event_id, number"#,
                endpoint.0,
                &ids
            )
            .fetch_all(&mut *conn)
            .await?;
            let of = |event: Uuid| {
                tries
                    .iter()
                    .filter(move |one| one.event_id == event)
                    .cloned()
            };
            let deliveries = rows.into_iter().map(|row| DeliveryView {
                event_id: row.event_id,
                kind: row.kind,
                job_id: row.job_id,
                state: row.state,
                next_at: row.next_at,
                created_at: row.created_at,
                tries: of(row.event_id).collect(),
            });
            Ok(deliveries.collect())
        });
        found.await.map(Some)
    }

    /// What waits to be delivered.
    pub async fn pending_deliveries(&self) -> Result<PendingDeliveries, StoreError> {
        self.read("pending_deliveries", |mut conn| async move {
            sqlx::query_as!(
                PendingDeliveries,
                r#"-- pending_deliveries
                select count(*) as "pending!", coalesce(greatest(
                    extract(epoch from authority_now() - min(next_at)), 0), 0)::float8
                    as "overdue_seconds!"
                from webhook_deliveries where next_at is not null"#
            )
            .fetch_one(&mut *conn)
            .await
        })
        .await
    }
}
