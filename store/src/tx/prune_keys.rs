//! Idempotency keys whose time is over.
//!
//! Locks: the keys. Writes: deletes those of jobs that ended at least a day ago.

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

impl Store {
    /// Deletes up to `limit` keys; how many there were.
    pub async fn prune_keys(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = i64::from(limit);
        self.execute(PruneKeys { limit }).await
    }
}

struct PruneKeys {
    limit: i64,
}

impl Transaction for PruneKeys {
    const NAME: &'static str = "prune_keys";
    type Output = u64;

    async fn run(&self, tx: &mut Tx) -> Result<u64, StoreError> {
        let pruned = sqlx::query!(
            r#"-- prune_keys
            delete from idempotency_keys k using (
                select k.org_id, k.key from idempotency_keys k join jobs j on j.id = k.job_id
                -- a job ends after its key was used: by age only the few that can be due are read
                where k.created_at < (select authority_mark()) - interval '24 hours'
                    and j.ended_at < (select authority_mark()) - interval '24 hours'
                order by k.created_at limit $1
                for no key update of k skip locked
            ) old
            where k.org_id = old.org_id and k.key = old.key"#,
            self.limit
        )
        .execute(&mut **tx)
        .await?;
        Ok(pruned.rows_affected())
    }
}
