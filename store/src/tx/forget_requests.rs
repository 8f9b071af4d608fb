//! Old requests are forgotten.
//!
//! Locks: their rows, skipping what others hold. Nothing depends on them any more: a lease is much
//! shorter, and what a commit, fail or release came to is on the attempt.

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

impl Store {
    /// Forgets up to `limit` requests that were asked two days ago or earlier; how many.
    pub async fn forget_requests(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = i64::from(limit);
        self.execute(ForgetRequests { limit }).await
    }
}

struct ForgetRequests {
    limit: i64,
}

impl Transaction for ForgetRequests {
    const NAME: &'static str = "forget_requests";
    type Output = u64;

    async fn run(&self, tx: &mut Tx) -> Result<u64, StoreError> {
        let forgotten = sqlx::query!(
            r#"-- forget_requests
            with old as materialized (
                select device_id, operation, request_id from device_requests
                where asked_at <= (select authority_mark()) - interval '2 days'
                order by asked_at limit $1 for update skip locked
            )
            delete from device_requests r using old
            where (r.device_id, r.operation, r.request_id)
                = (old.device_id, old.operation, old.request_id)"#,
            self.limit
        )
        .execute(&mut **tx)
        .await?;
        Ok(forgotten.rows_affected())
    }
}
