//! An endpoint is switched off, once, and its owner told: by what it shows, and by an event to the
//! other endpoints of the org. What waits for it is held, to be sent when somebody asks for it.
//!
//! The caller has locked the endpoint, which is enabled.

use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Tx;

/// Why an endpoint is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its buyer did it.
    Buyer,
    /// An operator did it.
    Operator,
    /// It said 410.
    Gone,
    /// Failures and nothing else for too long.
    Failing,
}

impl Reason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Buyer => "buyer",
            Self::Operator => "operator",
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }
}

pub(super) async fn disable(
    tx: &mut Tx,
    now: OffsetDateTime,
    endpoint: Uuid,
    reason: Reason,
) -> Result<(), StoreError> {
    let written = sqlx::query!(
        r#"-- disable_endpoint
        with off as (
            update webhook_endpoints set enabled = false, disabled_reason = $2, disabled_at = $3
            where id = $1 and enabled returning id
        ), held as (
            update webhook_deliveries d set state = 'held', next_at = null
            from off where d.endpoint_id = off.id and d.next_at is not null
        )
        select id from off"#,
        endpoint,
        reason.as_str(),
        now
    )
    .fetch_all(&mut **tx)
    .await?
    .len();
    if written != 1 {
        let what = format!("disabling {endpoint} changed {written} rows");
        return Err(StoreError::inconsistent("webhook_endpoints", what));
    }
    match reason {
        // Whoever did it knows.
        Reason::Buyer => Ok(()),
        Reason::Operator | Reason::Gone | Reason::Failing => tell(tx, now, endpoint, reason).await,
    }
}

async fn tell(
    tx: &mut Tx,
    now: OffsetDateTime,
    endpoint: Uuid,
    reason: Reason,
) -> Result<(), StoreError> {
    let body = json!({ "endpoint_id": endpoint, "reason": reason.as_str() });
    sqlx::query!(
        r#"-- disable_endpoint: tell
        with told as (
            insert into outbox (id, org_id, kind, terminal, body, created_at)
            select $2, org_id, 'webhook_endpoint.disabled', false,
                $3::jsonb || jsonb_build_object('at', $4::timestamptz), $4
            from webhook_endpoints where id = $1
            returning id, org_id, kind
        )
        insert into webhook_deliveries (endpoint_id, event_id, state, next_at, created_at)
        select e.id, told.id, 'pending', $4, $4
        from told join webhook_endpoints e on e.org_id = told.org_id and e.enabled
            and e.deleted_at is null and told.kind = any(e.event_types)"#,
        endpoint,
        Uuid::now_v7(),
        body,
        now
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
