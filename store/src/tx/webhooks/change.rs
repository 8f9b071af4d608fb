//! An endpoint is changed, switched off and on again: by its buyer, or by an operator, with a line in
//! the audit log.
//!
//! Locks: the endpoint. What was held while it was off stays held until somebody asks for it; being
//! switched on wipes its failures away.

use fencepost_domain::ids::{EndpointId, OrgId};
use serde_json::json;

use super::disable::{Reason, disable};
use crate::admin::Actor;
use crate::admin::audit::AuditLine;
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// What is to be different; the rest stays.
#[derive(Debug, Clone, Default)]
pub struct EndpointChange {
    /// The address.
    pub url: Option<String>,
    /// What is sent there.
    pub event_types: Option<Vec<String>>,
    /// Whether anything is.
    pub enabled: Option<bool>,
}

impl Store {
    /// Changes an endpoint of `org`; false if it has no such endpoint.
    pub async fn change_endpoint(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        change: EndpointChange,
    ) -> Result<bool, StoreError> {
        let by = By::Buyer(org);
        let change = ChangeEndpoint {
            by,
            endpoint,
            change,
        };
        self.execute(change).await
    }

    /// Switches an endpoint on or off at an operator's word; false if there is no such endpoint.
    pub async fn set_endpoint_enabled(
        &self,
        actor: &Actor,
        endpoint: EndpointId,
        enabled: bool,
    ) -> Result<bool, StoreError> {
        let action = if enabled {
            "webhook_endpoint.enable"
        } else {
            "webhook_endpoint.disable"
        };
        let change = ChangeEndpoint {
            by: By::Operator(AuditLine::new(actor, action, &endpoint)),
            endpoint,
            change: EndpointChange {
                enabled: Some(enabled),
                ..EndpointChange::default()
            },
        };
        self.execute(change).await
    }
}

enum By {
    Buyer(OrgId),
    Operator(AuditLine),
}

struct ChangeEndpoint {
    by: By,
    endpoint: EndpointId,
    change: EndpointChange,
}

impl Transaction for ChangeEndpoint {
    const NAME: &'static str = "change_endpoint";
    type Output = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let org = match &self.by {
            By::Buyer(org) => Some(org.0),
            By::Operator(_) => None,
        };
        let was_enabled = sqlx::query_scalar!(
            r#"-- change_endpoint: lock
            select enabled from webhook_endpoints
            where id = $1 and ($2::uuid is null or org_id = $2) and deleted_at is null
            for no key update"#,
            self.endpoint.0,
            org
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(was_enabled) = was_enabled else {
            return Ok(false);
        };
        if let By::Operator(line) = &self.by
            && line.written(tx).await?.is_none()
        {
            line.write(tx, json!({ "was_enabled": was_enabled }))
                .await?;
        }
        self.describe(tx).await?;
        match self.change.enabled {
            Some(true) if !was_enabled => self.enable(tx).await?,
            Some(false) if was_enabled => self.disable(tx).await?,
            Some(_) | None => {}
        }
        Ok(true)
    }
}

impl ChangeEndpoint {
    async fn describe(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let change = &self.change;
        if change.url.is_none() && change.event_types.is_none() {
            return Ok(());
        }
        sqlx::query!(
            r#"-- change_endpoint
            update webhook_endpoints set url = coalesce($2, url),
                event_types = coalesce($3, event_types)
            where id = $1 and deleted_at is null"#,
            self.endpoint.0,
            change.url,
            change.event_types.as_deref()
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    async fn enable(&self, tx: &mut Tx) -> Result<(), StoreError> {
        sqlx::query!(
            r#"-- change_endpoint: enable
            update webhook_endpoints set enabled = true, disabled_reason = null,
                disabled_at = null, failing_since = null, last_failure_at = null, rest_until = null
            where id = $1 and deleted_at is null"#,
            self.endpoint.0
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    async fn disable(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let now = sqlx::query_scalar!(
            r#"-- change_endpoint: clock
            select authority_now() as "now!""#
        )
        .fetch_one(&mut **tx)
        .await?;
        let reason = match self.by {
            By::Buyer(_) => Reason::Buyer,
            By::Operator(_) => Reason::Operator,
        };
        disable(tx, now, self.endpoint.0, reason).await
    }
}
