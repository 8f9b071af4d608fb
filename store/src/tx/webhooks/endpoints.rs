//! Endpoints come into being, get new secrets, and go.
//!
//! Locks: the org to make one (so that their number is exact), else the endpoint. Secrets come sealed:
//! nothing here can read them.

use fencepost_domain::ids::{EndpointId, OrgId};
use time::OffsetDateTime;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::vault::Sealed;

/// How many endpoints an org may have.
pub const MOST_ENDPOINTS: i64 = 50;

/// A checked request for an endpoint.
#[derive(Debug, Clone)]
pub struct NewEndpoint {
    /// Its id, made by the caller, for whom its secret is sealed.
    pub id: EndpointId,
    /// Whose it is.
    pub org: OrgId,
    /// The address.
    pub url: String,
    /// What is sent there.
    pub event_types: Vec<String>,
    /// What signs it.
    pub secret: Sealed,
}

/// A new secret for an endpoint.
#[derive(Debug, Clone)]
pub struct NewSecret {
    /// Whose endpoint.
    pub org: OrgId,
    /// Which.
    pub endpoint: EndpointId,
    /// The secret.
    pub secret: Sealed,
    /// How long the one before signs too, in seconds; 0 is not at all.
    pub keep_seconds: i64,
}

impl Store {
    /// Makes an endpoint; false if the org has as many as it may have.
    pub async fn create_endpoint(&self, new: NewEndpoint) -> Result<bool, StoreError> {
        self.execute(CreateEndpoint(new)).await
    }

    /// Gives an endpoint a new secret; until when the one before signs too, or `None` if the org has
    /// no such endpoint.
    pub async fn rotate_secret(
        &self,
        new: NewSecret,
    ) -> Result<Option<Option<OffsetDateTime>>, StoreError> {
        self.execute(RotateSecret(new)).await
    }

    /// Deletes an endpoint: its secrets are gone and nothing is sent any more. False if the org has
    /// no such endpoint.
    pub async fn delete_endpoint(
        &self,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<bool, StoreError> {
        self.execute(DeleteEndpoint { org, endpoint }).await
    }
}

struct CreateEndpoint(NewEndpoint);

impl Transaction for CreateEndpoint {
    const NAME: &'static str = "create_endpoint";
    type Output = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let new = &self.0;
        sqlx::query!(
            r#"-- create_endpoint: lock
            select id from orgs where id = $1 for no key update"#,
            new.org.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        let row = sqlx::query!(
            r#"-- create_endpoint: count
            select count(*) as "all!", count(*) filter (where id = $2) as "this!"
            from webhook_endpoints where org_id = $1 and deleted_at is null"#,
            new.org.0,
            new.id.0
        )
        .fetch_one(&mut **tx)
        .await?;
        if row.this == 1 || row.all >= MOST_ENDPOINTS {
            return Ok(row.this == 1);
        }
        sqlx::query!(
            r#"-- create_endpoint
            insert into webhook_endpoints (id, org_id, url, event_types, secret)
            values ($1, $2, $3, $4, $5)"#,
            new.id.0,
            new.org.0,
            new.url,
            &new.event_types,
            new.secret.0
        )
        .execute(&mut **tx)
        .await?;
        Ok(true)
    }
}

struct RotateSecret(NewSecret);

impl Transaction for RotateSecret {
    const NAME: &'static str = "rotate_secret";
    type Output = Option<Option<OffsetDateTime>>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let new = &self.0;
        let row = sqlx::query!(
            r#"-- rotate_secret: lock
            select secret, previous_secret_until from webhook_endpoints
            where id = $1 and org_id = $2 and deleted_at is null for no key update"#,
            new.endpoint.0,
            new.org.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        // An earlier run of this very rotation.
        if row.secret == new.secret.0 {
            return Ok(Some(row.previous_secret_until));
        }
        let until = sqlx::query_scalar!(
            r#"-- rotate_secret
            update webhook_endpoints set secret = $2,
                previous_secret = case when $3::bigint > 0 then secret end,
                previous_secret_until = case when $3::bigint > 0
                    then authority_now() + $3::bigint * interval '1 second' end
            where id = $1 and deleted_at is null returning previous_secret_until"#,
            new.endpoint.0,
            new.secret.0,
            new.keep_seconds
        );
        Ok(Some(until.fetch_one(&mut **tx).await?))
    }
}

struct DeleteEndpoint {
    org: OrgId,
    endpoint: EndpointId,
}

impl Transaction for DeleteEndpoint {
    const NAME: &'static str = "delete_endpoint";
    type Output = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let found = sqlx::query!(
            r#"-- delete_endpoint: lock
            select id from webhook_endpoints
            where id = $1 and org_id = $2 and deleted_at is null for no key update"#,
            self.endpoint.0,
            self.org.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        if found.is_none() {
            return Ok(tx.rerun);
        }
        sqlx::query!(
            r#"-- delete_endpoint
            with gone as (
                update webhook_endpoints set deleted_at = authority_now(), enabled = false,
                    disabled_reason = coalesce(disabled_reason, 'buyer'),
                    disabled_at = coalesce(disabled_at, authority_now()),
                    secret = '', previous_secret = null, previous_secret_until = null
                where id = $1 returning id
            )
            update webhook_deliveries d set state = 'held', next_at = null
            from gone where d.endpoint_id = gone.id and d.next_at is not null"#,
            self.endpoint.0
        )
        .execute(&mut **tx)
        .await?;
        Ok(true)
    }
}
