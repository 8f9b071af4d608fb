//! Providers and their devices.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{DeviceId, EnrollmentId, OrgId, ProviderId, SessionNumber};
use serde_json::json;
use uuid::Uuid;

use super::audit::AuditLine;
use crate::error::StoreError;
use crate::run::{Share, Store, Transaction, Tx};
use crate::secrets::Credential;

impl Store {
    /// Opens a provider. Its name must be new.
    pub async fn create_provider(&self, name: &str) -> Result<ProviderId, StoreError> {
        let id = ProviderId::new();
        self.execute(CreateProvider {
            id,
            name: name.to_owned(),
            line: self.audit_line("provider.create", &id),
        })
        .await
    }

    /// Makes a one-use enrollment code. `None` if the provider, or the device to pair again, does not
    /// exist. The device may be another provider's: pairing hands it over.
    pub async fn create_enrollment(
        &self,
        enrollment: NewEnrollment,
    ) -> Result<Option<Credential>, StoreError> {
        let code = Credential::mint("fp_pair_");
        let id = EnrollmentId::new();
        let create = CreateEnrollment {
            id,
            enrollment,
            digest: code.digest(),
            line: self.audit_line("device.enroll", &id),
        };
        Ok(self.execute(create).await?.then_some(code))
    }

    /// Gives a device no new work, or work again; false if there is no such device.
    pub async fn set_device_draining(
        &self,
        device: DeviceId,
        draining: bool,
    ) -> Result<bool, StoreError> {
        let action = if draining {
            "device.drain"
        } else {
            "device.undrain"
        };
        self.execute(SetDeviceDraining {
            device,
            draining,
            line: self.audit_line(action, &device),
        })
        .await
    }

    /// A number for a new session of the device that presents `token`, higher than any before.
    /// `None` if nobody has that token, or the device is disabled.
    pub async fn mint_session(
        &self,
        token: &Credential,
    ) -> Result<Option<(DeviceId, SessionNumber)>, StoreError> {
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

struct CreateProvider {
    id: ProviderId,
    name: String,
    line: AuditLine,
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
        self.line.write(tx, json!({ "name": self.name })).await?;
        Ok(self.id)
    }
}

struct CreateEnrollment {
    id: EnrollmentId,
    enrollment: NewEnrollment,
    digest: [u8; 32],
    line: AuditLine,
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
                (select from devices where devices.id = $3))
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
        if written.rows_affected() == 1 {
            let detail = json!({
                "provider_id": new.provider,
                "device_id": new.device,
                "own_org_id": new.own_org,
                "labels": new.labels,
                "valid_for": new.valid_for,
            });
            self.line.write(tx, detail).await?;
        }
        Ok(tx.rerun || written.rows_affected() == 1)
    }
}

struct SetDeviceDraining {
    device: DeviceId,
    draining: bool,
    line: AuditLine,
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
        let found = written.rows_affected() == 1;
        if found {
            self.line.write(tx, json!({})).await?;
        }
        Ok(found)
    }
}

struct MintSession {
    digest: [u8; 32],
}

impl Transaction for MintSession {
    const NAME: &'static str = "mint_session";
    const SHARE: Share = Share::Reserved;
    type Output = Option<(DeviceId, SessionNumber)>;
    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let row = sqlx::query!(
            r#"-- mint_session
            update devices set session_counter = session_counter + 1
            where token_digest = $1 and enabled returning id, session_counter"#,
            &self.digest[..]
        )
        .fetch_optional(&mut **tx)
        .await?;
        Ok(row.map(|row| (DeviceId(row.id), SessionNumber(row.session_counter))))
    }
}
