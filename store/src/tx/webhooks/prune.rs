//! Deliveries that are long over are forgotten, with their tries; events that are no job's; and
//! endpoints that were deleted, once nothing of theirs is left.
//!
//! Locks: their rows, skipping what others hold.

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

impl Store {
    /// Looks at up to `limit` of the oldest deliveries and forgets those of 30 days ago or earlier;
    /// how many.
    pub async fn prune_deliveries(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = i64::from(limit);
        self.execute(PruneDeliveries { limit }).await
    }
}

struct PruneDeliveries {
    limit: i64,
}

impl Transaction for PruneDeliveries {
    const NAME: &'static str = "prune_deliveries";
    type Output = u64;

    async fn run(&self, tx: &mut Tx) -> Result<u64, StoreError> {
        let pruned = sqlx::query!(
            r#"-- prune_deliveries
            with oldest as materialized (
                -- ids of events are made in the order of time
                select endpoint_id, event_id from webhook_deliveries order by event_id limit $1
            ), old as materialized (
                select d.endpoint_id, d.event_id from webhook_deliveries d
                join oldest using (endpoint_id, event_id)
                where d.next_at is null and d.created_at < (select authority_mark()) - interval '30 days'
                for update of d skip locked
            )
            delete from webhook_deliveries d using old
            where (d.endpoint_id, d.event_id) = (old.endpoint_id, old.event_id)"#,
            self.limit
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        sqlx::query!(
            r#"-- prune_deliveries: endpoints
            with told as (
                delete from outbox
                where job_id is null and created_at < (select authority_mark()) - interval '30 days'
            )
            delete from webhook_endpoints e
            where e.deleted_at < (select authority_mark()) - interval '1 day'
                and not exists (select from webhook_deliveries d where d.endpoint_id = e.id)"#
        )
        .execute(&mut **tx)
        .await?;
        Ok(pruned)
    }
}
