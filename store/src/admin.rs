//! What operators do: orgs, keys, providers, credit, enrollment, devices, schema.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{ApiKeyId, DeviceId, EnrollmentId, OrgId, ProviderId};
use sqlx::migrate::Migrator;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::secrets::Credential;

/// The migrations of this build.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

impl Store {
    /// Brings the schema to this build's version. Gateways may run meanwhile.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let pool = self.pool().clone();
        self.on_runtime(async move { MIGRATIONS.run(&pool).await })
            .await?
            .map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    /// Refuses a schema that is older or newer than this build knows.
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        let needed = MIGRATIONS
            .iter()
            .map(|migration| migration.version)
            .max()
            .unwrap_or(0);
        let found: Result<Option<i64>, _> = self
            .read("check_schema", |mut conn| async move {
                // Unchecked SQL: the table is the migrator's, and may not be there.
                sqlx::query_scalar("-- check_schema\nselect max(version) from _sqlx_migrations")
                    .fetch_one(&mut *conn)
                    .await
            })
            .await;
        let found = match found {
            Ok(version) => version.unwrap_or(0),
            Err(StoreError::Database(_)) => 0,
            Err(error) => return Err(error),
        };
        if found == needed {
            return Ok(());
        }
        let found = if found == 0 {
            "empty".to_owned()
        } else {
            format!("version {found}")
        };
        Err(StoreError::Schema {
            found,
            needed: format!("version {needed}"),
        })
    }

    /// Opens an org with an empty account. Its name must be new.
    pub async fn create_org(
        &self,
        name: &str,
        max_live_attempts: Option<i64>,
    ) -> Result<OrgId, StoreError> {
        let org = CreateOrg {
            id: OrgId::new(),
            name: name.to_owned(),
            max_live_attempts,
        };
        self.execute(org).await
    }

    /// Makes a key for an org; `live` ones begin with `fp_live_`, others with `fp_test_`. `None` if
    /// there is no such org.
    pub async fn create_api_key(
        &self,
        org: OrgId,
        live: bool,
    ) -> Result<Option<(ApiKeyId, Credential)>, StoreError> {
        let key = Credential::mint(if live { "fp_live_" } else { "fp_test_" });
        let create = CreateApiKey {
            id: ApiKeyId::new(),
            org,
            digest: key.digest(),
        };
        let id = create.id;
        Ok(self.execute(create).await?.then_some((id, key)))
    }

    /// Revokes a key; false if there was no such live key.
    pub async fn revoke_api_key(&self, key: ApiKeyId) -> Result<bool, StoreError> {
        self.execute(RevokeApiKey { key }).await
    }

    /// Opens a provider. Its name must be new.
    pub async fn create_provider(&self, name: &str) -> Result<ProviderId, StoreError> {
        self.execute(CreateProvider {
            id: ProviderId::new(),
            name: name.to_owned(),
        })
        .await
    }

    /// Adds credit, in micros, to an org's account; the new balance, or `None` without such an org.
    pub async fn add_credit(&self, org: OrgId, micros: i64) -> Result<Option<i64>, StoreError> {
        let request = Uuid::now_v7();
        self.execute(AddCredit {
            org,
            micros,
            request,
        })
        .await
    }

    /// Makes a one-use enrollment code. `None` if the provider (or the device to pair again, which
    /// must be the provider's) does not exist.
    pub async fn create_enrollment(
        &self,
        enrollment: NewEnrollment,
    ) -> Result<Option<Credential>, StoreError> {
        let code = Credential::mint("fp_pair_");
        let create = CreateEnrollment {
            id: EnrollmentId::new(),
            enrollment,
            digest: code.digest(),
        };
        Ok(self.execute(create).await?.then_some(code))
    }

    /// Lets a device work or not; false if there is no such device.
    pub async fn set_device_enabled(
        &self,
        device: DeviceId,
        enabled: bool,
    ) -> Result<bool, StoreError> {
        self.execute(SetDeviceEnabled { device, enabled }).await
    }

    /// Gives a device no new work, or work again; false if there is no such device.
    pub async fn set_device_draining(
        &self,
        device: DeviceId,
        draining: bool,
    ) -> Result<bool, StoreError> {
        self.execute(SetDeviceDraining { device, draining }).await
    }

    /// Reserves a place for a buyer's file.
    pub async fn create_upload(
        &self,
        org: OrgId,
        upload: fencepost_domain::ids::UploadId,
        max_bytes: i64,
    ) -> Result<OffsetDateTime, StoreError> {
        self.execute(CreateUpload {
            org,
            upload,
            max_bytes,
        })
        .await
    }

    /// A number for a new session of the device that presents `token`, higher than any before.
    /// `None` if nobody has that token, or the device is disabled.
    pub async fn mint_session(
        &self,
        token: &Credential,
    ) -> Result<Option<(DeviceId, fencepost_domain::ids::SessionNumber)>, StoreError> {
        self.execute(MintSession {
            digest: token.digest(),
        })
        .await
    }
}

/// What an enrollment code is for.
#[derive(Debug, Clone)]
pub struct NewEnrollment {
    /// Who will own the device.
    pub provider: ProviderId,
    /// The device to pair again; `None` for a new one.
    pub device: Option<DeviceId>,
    /// The org whose own device it will be.
    pub own_org: Option<OrgId>,
    /// Labels for placement.
    pub labels: Vec<String>,
    /// How long the code can be used.
    pub valid_for: LeaseDuration,
}

struct CreateOrg {
    id: OrgId,
    name: String,
    max_live_attempts: Option<i64>,
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
        Ok(self.id)
    }
}

struct CreateApiKey {
    id: ApiKeyId,
    org: OrgId,
    digest: [u8; 32],
}

impl Transaction for CreateApiKey {
    const NAME: &'static str = "create_api_key";
    type Output = bool;
    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let written = sqlx::query!(
            r#"-- create_api_key
            insert into api_keys (id, org_id, digest) select $1, id, $3 from orgs where id = $2
            on conflict (id) do nothing"#,
            self.id.0,
            self.org.0,
            &self.digest[..]
        )
        .execute(&mut **tx)
        .await?;
        Ok(tx.rerun || written.rows_affected() == 1)
    }
}

struct RevokeApiKey {
    key: ApiKeyId,
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
        Ok(tx.rerun || written.rows_affected() == 1)
    }
}

struct CreateProvider {
    id: ProviderId,
    name: String,
}

impl Transaction for CreateProvider {
    const NAME: &'static str = "create_provider";
    type Output = ProviderId;
    async fn run(&self, tx: &mut Tx) -> Result<ProviderId, StoreError> {
        sqlx::query!(
            r#"-- create_provider
            insert into providers (id, name) values ($1, $2) on conflict (id) do nothing"#,
            self.id.0,
            self.name
        )
        .execute(&mut **tx)
        .await?;
        Ok(self.id)
    }
}

struct AddCredit {
    org: OrgId,
    micros: i64,
    /// Made by the caller, so that a second run adds nothing.
    request: Uuid,
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
        Ok(balance.fetch_optional(&mut **tx).await?)
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

struct CreateEnrollment {
    id: EnrollmentId,
    enrollment: NewEnrollment,
    digest: [u8; 32],
}

impl Transaction for CreateEnrollment {
    const NAME: &'static str = "create_enrollment";
    type Output = bool;
    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let new = &self.enrollment;
        let device: Option<Uuid> = new.device.map(|device| device.0);
        let written = sqlx::query!(
            r#"-- create_enrollment
            insert into enrollment_codes
                (id, provider_id, device_id, own_org_id, labels, digest, expires_at)
            select $1, providers.id, $3, $4, $5, $6,
                authority_now() + $7::bigint * interval '1 microsecond'
            from providers
            where providers.id = $2 and ($3::uuid is null or exists
                (select from devices where devices.id = $3 and provider_id = $2))
            on conflict (id) do nothing"#,
            self.id.0,
            new.provider.0,
            device,
            new.own_org.map(|org| org.0),
            &new.labels,
            &self.digest[..],
            new.valid_for.micros()
        )
        .execute(&mut **tx)
        .await?;
        Ok(tx.rerun || written.rows_affected() == 1)
    }
}

struct SetDeviceEnabled {
    device: DeviceId,
    enabled: bool,
}

impl Transaction for SetDeviceEnabled {
    const NAME: &'static str = "set_device_enabled";
    type Output = bool;
    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let written = sqlx::query!(
            r#"-- set_device_enabled
            update devices set enabled = $2,
                current_session = case when $2 then current_session end
            where id = $1"#,
            self.device.0,
            self.enabled
        )
        .execute(&mut **tx)
        .await?;
        Ok(written.rows_affected() == 1)
    }
}

struct SetDeviceDraining {
    device: DeviceId,
    draining: bool,
}

impl Transaction for SetDeviceDraining {
    const NAME: &'static str = "set_device_draining";
    type Output = bool;
    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let written = sqlx::query!(
            "-- set_device_draining\nupdate devices set draining = $2 where id = $1",
            self.device.0,
            self.draining
        )
        .execute(&mut **tx)
        .await?;
        Ok(written.rows_affected() == 1)
    }
}

struct CreateUpload {
    org: OrgId,
    upload: fencepost_domain::ids::UploadId,
    max_bytes: i64,
}

impl Transaction for CreateUpload {
    const NAME: &'static str = "create_upload";
    /// Until when the link to it can be used.
    type Output = OffsetDateTime;
    async fn run(&self, tx: &mut Tx) -> Result<OffsetDateTime, StoreError> {
        let grant = tx.settings.grant.micros();
        let until = sqlx::query_scalar!(
            r#"-- create_upload
            insert into uploads (id, org_id, object_key, max_bytes) values ($1, $2, $3, $4)
            on conflict (id) do update set max_bytes = excluded.max_bytes
            returning authority_now() + $5::bigint * interval '1 microsecond' as "until!""#,
            self.upload.0,
            self.org.0,
            fencepost_domain::artifact_key::upload(self.upload),
            self.max_bytes,
            grant
        );
        Ok(until.fetch_one(&mut **tx).await?)
    }
}

struct MintSession {
    digest: [u8; 32],
}

impl Transaction for MintSession {
    const NAME: &'static str = "mint_session";
    type Output = Option<(DeviceId, fencepost_domain::ids::SessionNumber)>;
    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let row = sqlx::query!(
            r#"-- mint_session
            update devices set session_counter = session_counter + 1
            where token_digest = $1 and enabled returning id, session_counter"#,
            &self.digest[..]
        )
        .fetch_optional(&mut **tx)
        .await?;
        Ok(row.map(|row| {
            (
                DeviceId(row.id),
                fencepost_domain::ids::SessionNumber(row.session_counter),
            )
        }))
    }
}
