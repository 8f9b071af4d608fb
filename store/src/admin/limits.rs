//! What an org may use.

use fencepost_domain::ids::OrgId;
use serde::Serialize;

use super::audit::AuditLine;
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::tx::submit_job::QuotaReached;

/// What an org may use, and what it does use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrgUse {
    /// Its live attempts.
    pub live_attempts: i64,
    /// The most of them; `None` is no limit.
    pub max_live_attempts: Option<i64>,
    /// Its jobs that have not ended.
    pub open_jobs: i64,
    /// The most of them.
    pub max_open_jobs: i64,
    /// Bytes of its uploads and outputs.
    pub stored_bytes: i64,
    /// The most of them.
    pub max_stored_bytes: i64,
}

/// A change of limits; what is `None` stays, and `Some(None)` is what everybody has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewLimits {
    /// Attempts at once.
    pub live_attempts: Option<Option<i64>>,
    /// Jobs that have not ended.
    pub open_jobs: Option<Option<i64>>,
    /// Bytes of uploads and outputs.
    pub stored_bytes: Option<Option<i64>>,
}

impl Store {
    /// Changes what an org may use; false if there is no such org.
    pub async fn set_limits(&self, org: OrgId, limits: NewLimits) -> Result<bool, StoreError> {
        let line = self.audit_line("org.limits", &org);
        self.execute(SetLimits { org, limits, line }).await
    }

    /// The quota that leaves no room for a file of so many bytes, if one does.
    pub async fn is_full(
        &self,
        org: OrgId,
        bytes: i64,
    ) -> Result<Option<QuotaReached>, StoreError> {
        let now = self.org_use(org).await?;
        Ok(now.and_then(|now| {
            let full = now.stored_bytes.saturating_add(bytes) > now.max_stored_bytes;
            full.then_some(QuotaReached {
                quota: "stored_bytes",
                used: now.stored_bytes,
                most: now.max_stored_bytes,
            })
        }))
    }

    /// What an org uses and may use; `None` without such an org.
    pub async fn org_use(&self, org: OrgId) -> Result<Option<OrgUse>, StoreError> {
        let quotas = self.settings().quotas;
        self.read("org_use", move |mut conn| async move {
            sqlx::query_as!(
                OrgUse,
                r#"-- org_use
                select (select count(*) from attempts a where a.org_id = o.id and a.ended_at is null)
                        as "live_attempts!",
                    o.max_live_attempts, a.open_jobs, a.stored_bytes,
                    coalesce(a.max_open_jobs, $2) as "max_open_jobs!",
                    coalesce(a.max_stored_bytes, $3) as "max_stored_bytes!"
                from orgs o join org_accounts a on a.org_id = o.id where o.id = $1"#,
                org.0,
                quotas.open_jobs,
                quotas.stored_bytes
            )
            .fetch_optional(&mut *conn)
            .await
        })
        .await
    }
}

struct SetLimits {
    org: OrgId,
    limits: NewLimits,
    line: AuditLine,
}

impl Transaction for SetLimits {
    const NAME: &'static str = "set_limits";
    type Output = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let NewLimits {
            live_attempts,
            open_jobs,
            stored_bytes,
        } = self.limits;
        // The org before its account, as everywhere.
        let found = sqlx::query_scalar!(
            r#"-- set_limits: org
            update orgs set max_live_attempts = case when $2 then $3 else max_live_attempts end
            where id = $1 returning max_live_attempts"#,
            self.org.0,
            live_attempts.is_some(),
            live_attempts.flatten()
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(max_live_attempts) = found else {
            return Ok(false);
        };
        let row = sqlx::query!(
            r#"-- set_limits: account
            update org_accounts set
                max_open_jobs = case when $2 then $3 else max_open_jobs end,
                max_stored_bytes = case when $4 then $5 else max_stored_bytes end
            where org_id = $1 returning max_open_jobs, max_stored_bytes"#,
            self.org.0,
            open_jobs.is_some(),
            open_jobs.flatten(),
            stored_bytes.is_some(),
            stored_bytes.flatten()
        )
        .fetch_one(&mut **tx)
        .await?;
        let detail = serde_json::json!({
            "max_live_attempts": max_live_attempts,
            "max_open_jobs": row.max_open_jobs,
            "max_stored_bytes": row.max_stored_bytes,
        });
        self.line.write(tx, detail).await?;
        Ok(true)
    }
}
