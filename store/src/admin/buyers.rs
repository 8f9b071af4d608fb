//! Orgs, their keys, credit and files.

use fencepost_domain::artifact_key;
use fencepost_domain::ids::{ApiKeyId, OrgId, UploadId};
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::audit::AuditLine;
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::secrets::Credential;

impl Store {
    /// Opens an org with an empty account. Its name must be new.
    pub async fn create_org(
        &self,
        name: &str,
        max_live_attempts: Option<i64>,
    ) -> Result<OrgId, StoreError> {
        let id = OrgId::new();
        self.execute(CreateOrg {
            id,
            name: name.to_owned(),
            max_live_attempts,
            line: self.audit_line("org.create", &id),
        })
        .await
    }

    /// Makes a key for an org; `live` ones begin with `fp_live_`, others with `fp_test_`. `None` if
    /// there is no such org.
    pub async fn create_api_key(
        &self,
        org: OrgId,
        live: bool,
    ) -> Result<Option<(ApiKeyId, Credential)>, StoreError> {
        let key = Credential::mint(if live { "fp_live_" } else { "fp_test_" });
        let id = ApiKeyId::new();
        let create = CreateApiKey {
            id,
            org,
            live,
            digest: key.digest(),
            hint: key.hint(),
            line: self.audit_line("key.create", &id),
        };
        Ok(self.execute(create).await?.then_some((id, key)))
    }

    /// Revokes a key; false if there was no such live key.
    pub async fn revoke_api_key(&self, key: ApiKeyId) -> Result<bool, StoreError> {
        let line = self.audit_line("key.revoke", &key);
        self.execute(RevokeApiKey { key, line }).await
    }

    /// Adds credit, in micros, to an org's account; the new balance, or `None` without such an org.
    pub async fn add_credit(&self, org: OrgId, micros: i64) -> Result<Option<i64>, StoreError> {
        let request = Uuid::now_v7();
        self.execute(AddCredit {
            org,
            micros,
            request,
            line: self.audit_line("credit.add", &org),
        })
        .await
    }

    /// Reserves a place for a buyer's file.
    pub async fn create_upload(
        &self,
        org: OrgId,
        upload: UploadId,
        max_bytes: i64,
    ) -> Result<OffsetDateTime, StoreError> {
        let new = NewUpload {
            id: upload,
            max_bytes,
            sha256: None,
            in_bucket: false,
        };
        self.create_declared_upload(org, new).await
    }

    /// The same for a file of which more is known, or that is sent to a bucket.
    pub async fn create_declared_upload(
        &self,
        org: OrgId,
        new: NewUpload,
    ) -> Result<OffsetDateTime, StoreError> {
        self.execute(CreateUpload { org, new }).await
    }
}

struct CreateOrg {
    id: OrgId,
    name: String,
    max_live_attempts: Option<i64>,
    line: AuditLine,
}

impl Transaction for CreateOrg {
    const NAME: &'static str = "create_org";
    type Output = OrgId;
    async fn run(&self, tx: &mut Tx) -> Result<OrgId, StoreError> {
        sqlx::query!(
            r#"-- create_org
            with org as (
                insert into orgs (id, name, max_live_attempts) values ($1, $2, $3)
                on conflict (id) do nothing returning id
            )
            insert into org_accounts (org_id) select id from org"#,
            self.id.0,
            self.name,
            self.max_live_attempts
        )
        .execute(&mut **tx)
        .await?;
        let detail = json!({ "name": self.name, "max_live_attempts": self.max_live_attempts });
        self.line.write(tx, detail).await?;
        Ok(self.id)
    }
}

struct CreateApiKey {
    id: ApiKeyId,
    org: OrgId,
    live: bool,
    digest: [u8; 32],
    hint: String,
    line: AuditLine,
}

impl Transaction for CreateApiKey {
    const NAME: &'static str = "create_api_key";
    type Output = bool;
    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let written = sqlx::query!(
            r#"-- create_api_key
            insert into api_keys (id, org_id, digest, hint)
            select $1, id, $3, $4 from orgs where id = $2
            on conflict (id) do nothing"#,
            self.id.0,
            self.org.0,
            &self.digest[..],
            self.hint
        )
        .execute(&mut **tx)
        .await?;
        if written.rows_affected() == 1 {
            let detail = json!({ "org_id": self.org, "live": self.live });
            self.line.write(tx, detail).await?;
        }
        Ok(tx.rerun || written.rows_affected() == 1)
    }
}

struct RevokeApiKey {
    key: ApiKeyId,
    line: AuditLine,
}

impl Transaction for RevokeApiKey {
    const NAME: &'static str = "revoke_api_key";
    type Output = bool;
    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let written = sqlx::query!(
            r#"-- revoke_api_key
            update api_keys set revoked_at = authority_now()
            where id = $1 and revoked_at is null"#,
            self.key.0
        )
        .execute(&mut **tx)
        .await?;
        if written.rows_affected() == 1 {
            self.line.write(tx, json!({})).await?;
        }
        Ok(tx.rerun || written.rows_affected() == 1)
    }
}

struct AddCredit {
    org: OrgId,
    micros: i64,
    /// Made by the caller, so that a second run adds nothing.
    request: Uuid,
    line: AuditLine,
}

impl Transaction for AddCredit {
    const NAME: &'static str = "add_credit";
    type Output = Option<i64>;
    async fn run(&self, tx: &mut Tx) -> Result<Option<i64>, StoreError> {
        let balance = sqlx::query_scalar!(
            r#"-- add_credit: lock
            select available_micros from org_accounts where org_id = $1 for no key update"#,
            self.org.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        // An earlier run that was still committing held that lock: now its posting can be seen.
        if balance.is_none() || tx.rerun && self.is_posted(tx).await? {
            return Ok(balance);
        }
        let balance = sqlx::query_scalar!(
            r#"-- add_credit
            with account as (
                update org_accounts set available_micros = available_micros + $2
                where org_id = $1 returning org_id, available_micros
            ), posted as (
                insert into postings (kind, debit, credit, amount_micros, org_id, request_id)
                select 'credit', 'external', 'org_available', $2, org_id, $3 from account
                returning 1
            )
            select available_micros from account, posted"#,
            self.org.0,
            self.micros,
            self.request
        );
        let balance = balance.fetch_optional(&mut **tx).await?;
        let detail = json!({ "added_micros": self.micros, "available_micros": balance });
        self.line.write(tx, detail).await?;
        Ok(balance)
    }
}

impl AddCredit {
    async fn is_posted(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let found = sqlx::query_scalar!(
            r#"-- add_credit: find
            select exists (select from postings where request_id = $1) as "found!""#,
            self.request
        );
        Ok(found.fetch_one(&mut **tx).await?)
    }
}

/// A place for a buyer's file.
#[derive(Debug, Clone)]
pub struct NewUpload {
    /// Its id, made by the caller.
    pub id: UploadId,
    /// The most bytes that are taken.
    pub max_bytes: i64,
    /// What the file will be; no other is taken.
    pub sha256: Option<[u8; 32]>,
    /// Whether it is sent to a bucket, and completed afterwards.
    pub in_bucket: bool,
}

struct CreateUpload {
    org: OrgId,
    new: NewUpload,
}

impl Transaction for CreateUpload {
    const NAME: &'static str = "create_upload";
    /// Until when the link to it can be used.
    type Output = OffsetDateTime;
    async fn run(&self, tx: &mut Tx) -> Result<OffsetDateTime, StoreError> {
        let (grant, transfer) = (
            tx.settings.grant.micros(),
            tx.settings.longest_transfer.micros(),
        );
        let unused = tx.settings.retention.unused_uploads_micros();
        let until = sqlx::query_scalar!(
            r#"-- create_upload
            with clock as materialized (
                select authority_now() as now, $5::bigint * interval '1 microsecond' as link,
                    case when $8 then $6::bigint * interval '1 microsecond' end as transfer
            )
            insert into uploads (id, org_id, object_key, max_bytes, declared_sha256, complete_by,
                collect_after, look_after)
            select $1, $2, $3, $4, $7, now + link + transfer,
                now + link + transfer + interval '1 hour',
                now + $9::bigint * interval '1 microsecond' from clock
            on conflict (id) do update set max_bytes = excluded.max_bytes
            returning (select now + link from clock) as "until!""#,
            self.new.id.0,
            self.org.0,
            artifact_key::upload(self.new.id),
            self.new.max_bytes,
            grant,
            transfer,
            self.new.sha256.as_ref().map(|sha256| &sha256[..]),
            self.new.in_bucket,
            unused
        );
        Ok(until.fetch_one(&mut **tx).await?)
    }
}
