//! Deliveries are put back in line, by their buyer or an operator: one, whatever became of it, or all
//! of an endpoint that did not arrive.
//!
//! Locks: the endpoint, which must be switched on; then its deliveries. A delivery that is being sent
//! at this moment is left alone. Writes: a new round of tries, beginning now.

use fencepost_domain::ids::{EndpointId, OrgId, OutboxId};
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::Actor;
use crate::admin::audit::AuditLine;
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// The most deliveries that one request puts back.
pub const MOST_REDELIVERED: i64 = 10_000;

/// Which deliveries.
#[derive(Debug, Clone, Copy)]
pub enum Which {
    /// This one.
    One(OutboxId),
    /// All that failed or are held, of events that happened then or later.
    Since(OffsetDateTime),
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivered {
    /// So many are in line again; for one that is being sent now, none.
    Queued(i64),
    /// There is no such endpoint, or it has no such delivery.
    Unknown,
    /// The endpoint is switched off.
    Disabled,
}

impl Store {
    /// Puts deliveries of an endpoint of `org` back in line.
    pub async fn redeliver(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        which: Which,
    ) -> Result<Redelivered, StoreError> {
        self.execute(Redeliver {
            org: Some(org),
            endpoint,
            which,
            request: Uuid::now_v7(),
            audit: None,
        })
        .await
    }

    /// The same at an operator's word, for any org's endpoint.
    pub async fn redeliver_as_operator(
        &self,
        actor: &Actor,
        endpoint: EndpointId,
        which: Which,
    ) -> Result<Redelivered, StoreError> {
        let line = AuditLine::new(actor, "webhook_endpoint.redeliver", &endpoint);
        self.execute(Redeliver {
            org: None,
            endpoint,
            which,
            request: Uuid::now_v7(),
            audit: Some(line),
        })
        .await
    }
}

struct Redeliver {
    org: Option<OrgId>,
    endpoint: EndpointId,
    which: Which,
    /// So that a second run finds what the first one did.
    request: Uuid,
    audit: Option<AuditLine>,
}

impl Transaction for Redeliver {
    const NAME: &'static str = "redeliver";
    type Output = Redelivered;

    async fn run(&self, tx: &mut Tx) -> Result<Redelivered, StoreError> {
        let enabled = sqlx::query_scalar!(
            r#"-- redeliver: lock
            select enabled from webhook_endpoints
            where id = $1 and ($2::uuid is null or org_id = $2) and deleted_at is null
            for no key update"#,
            self.endpoint.0,
            self.org.map(|org| org.0)
        )
        .fetch_optional(&mut **tx)
        .await?;
        match enabled {
            None => return Ok(Redelivered::Unknown),
            Some(false) => return Ok(Redelivered::Disabled),
            Some(true) => {}
        }
        if let Which::One(event) = self.which
            && !self.exists(tx, event).await?
        {
            return Ok(Redelivered::Unknown);
        }
        let before = if tx.rerun { self.find(tx).await? } else { 0 };
        let queued = if before > 0 {
            before
        } else {
            self.put_back(tx).await?
        };
        if let Some(line) = &self.audit
            && line.written(tx).await?.is_none()
        {
            line.write(tx, json!({ "deliveries": queued })).await?;
        }
        Ok(Redelivered::Queued(queued))
    }
}

impl Redeliver {
    async fn exists(&self, tx: &mut Tx, event: OutboxId) -> Result<bool, StoreError> {
        let found = sqlx::query_scalar!(
            r#"-- redeliver: exists
            select exists (select from webhook_deliveries
                where endpoint_id = $1 and event_id = $2) as "found!""#,
            self.endpoint.0,
            event.0
        );
        Ok(found.fetch_one(&mut **tx).await?)
    }

    async fn find(&self, tx: &mut Tx) -> Result<i64, StoreError> {
        let found = sqlx::query_scalar!(
            r#"-- redeliver: find
            select count(*) as "found!" from webhook_deliveries
            where endpoint_id = $1 and requeued_by = $2"#,
            self.endpoint.0,
            self.request
        );
        Ok(found.fetch_one(&mut **tx).await?)
    }

    async fn put_back(&self, tx: &mut Tx) -> Result<i64, StoreError> {
        let (one, since) = match self.which {
            Which::One(event) => (Some(event.0), None),
            Which::Since(since) => (None, Some(since)),
        };
        let put_back = sqlx::query!(
            r#"-- redeliver
            with chosen as materialized (
                select event_id, next_at, claim from webhook_deliveries
                where endpoint_id = $1 and case when $2::uuid is not null then event_id = $2
                    else state in ('failed', 'held') and created_at >= $3 end
                order by event_id limit $5 for no key update
            )
            update webhook_deliveries d set state = 'pending', next_at = authority_now(),
                round_tries = 0, claim = null, requeued_by = $4
            from chosen c
            where d.endpoint_id = $1 and d.event_id = c.event_id
                -- not while it is being sent
                and (c.claim is null or c.next_at is null or c.next_at <= authority_now())"#,
            self.endpoint.0,
            one,
            since,
            self.request,
            MOST_REDELIVERED
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        Ok(i64::try_from(put_back).unwrap_or(i64::MAX))
    }
}
