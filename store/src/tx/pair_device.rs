//! An enrollment code becomes a device token.
//!
//! Locks: the code, then the device, then what its agent holds. Checks: not used, not expired (by the
//! clock read after the lock, or by its mark if the clock is behind it: what has expired stays so),
//! device enabled. Writes: the code is used; the device's token is
//! replaced, which voids the old one and every session under it. What the device holds waits for a
//! hello under the new token, and until then nobody's frame about it is right; if the device goes to
//! another provider, it ends.

use fencepost_domain::ids::{DeviceId, ProviderId};
use fencepost_domain::text::clean;
use uuid::Uuid;

use super::revoke::{keep_leases_for_hello, revoke_leases_of};
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::secrets::Credential;

/// A paired device.
#[derive(Debug, Clone)]
pub struct Paired {
    /// The device.
    pub device: DeviceId,
    /// Its owner.
    pub provider: ProviderId,
    /// Its credential, shown once.
    pub token: Credential,
}

impl Store {
    /// Uses an enrollment code; `None` if it is unknown, used or expired (nobody is told which).
    pub async fn pair_device(
        &self,
        code: &Credential,
        name: &str,
    ) -> Result<Option<Paired>, StoreError> {
        let pairing = PairDevice {
            code_digest: code.digest(),
            name: clean(name, 200),
            device: DeviceId::new(),
            token: Credential::mint("fp_device_"),
        };
        self.execute(pairing).await
    }
}

struct PairDevice {
    code_digest: [u8; 32],
    name: String,
    /// The id of the device if it is a new one.
    device: DeviceId,
    token: Credential,
}

impl Transaction for PairDevice {
    const NAME: &'static str = "pair_device";
    type Output = Option<Paired>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let code = sqlx::query!(
            r#"-- pair_device: lock
            with code as materialized (
                select * from enrollment_codes where digest = $1 for no key update
            ), clock as materialized (
                select greatest(authority_mark(), authority_now()) as now
                from (select count(*) from code) is_locked
            )
            select code.id, code.provider_id, code.device_id,
                (code.used_at is null and code.expires_at > clock.now) as "usable!"
            from code, clock"#,
            &self.code_digest[..]
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(code) = code else { return Ok(None) };
        if !code.usable {
            // Unless an earlier run of this very pairing used it.
            let mine = tx.rerun && self.is_written(tx).await?;
            let device = code.device_id.unwrap_or(self.device.0);
            return Ok(mine.then(|| self.paired(device, code.provider_id)));
        }
        if let Some(again) = code.device_id {
            let Some(owner) = owner(tx, again).await? else {
                return Ok(None);
            };
            if owner == code.provider_id {
                keep_leases_for_hello(tx, DeviceId(again)).await?;
            } else {
                let why = "the device was paired to another provider";
                revoke_leases_of(tx, DeviceId(again), why).await?;
            }
        }
        let device = self.write(tx, code.id, code.device_id).await?;
        Ok(Some(self.paired(device, code.provider_id)))
    }
}

/// Locks a device that is paired again and says who owns it; `None` if it is disabled.
async fn owner(tx: &mut Tx, device: Uuid) -> Result<Option<Uuid>, StoreError> {
    let owner = sqlx::query_scalar!(
        r#"-- pair_device: lock the device
        select provider_id from devices where id = $1 and enabled for no key update"#,
        device
    );
    Ok(owner.fetch_optional(&mut **tx).await?)
}

impl PairDevice {
    fn paired(&self, device: Uuid, provider: Uuid) -> Paired {
        Paired {
            device: DeviceId(device),
            provider: ProviderId(provider),
            token: self.token.clone(),
        }
    }

    async fn is_written(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let found = sqlx::query_scalar!(
            r#"-- pair_device: find
            select exists (select from devices where token_digest = $1) as "found!""#,
            &self.token.digest()[..]
        );
        Ok(found.fetch_one(&mut **tx).await?)
    }

    /// The device's id.
    async fn write(
        &self,
        tx: &mut Tx,
        code: Uuid,
        again: Option<Uuid>,
    ) -> Result<Uuid, StoreError> {
        let device = sqlx::query_scalar!(
            r#"-- pair_device: write
            with code as (
                update enrollment_codes set used_at = authority_now(),
                    device_id = coalesce(device_id, $3)
                where id = $1 and used_at is null
                returning *
            )
            insert into devices (id, provider_id, name, own_org_id, labels, token_digest)
            select code.device_id, code.provider_id, $4, code.own_org_id, code.labels, $2 from code
            on conflict (id) do update set token_digest = excluded.token_digest,
                current_session = null, void_through = devices.session_counter, supersedes = '{}',
                -- a new owner's code says what the device is from now on
                provider_id = excluded.provider_id,
                own_org_id = case when devices.provider_id = excluded.provider_id
                    then coalesce(excluded.own_org_id, devices.own_org_id)
                    else excluded.own_org_id end,
                labels = case when devices.provider_id = excluded.provider_id
                        and excluded.labels = '{}'
                    then devices.labels else excluded.labels end
            returning id"#,
            code,
            &self.token.digest()[..],
            again.unwrap_or(self.device.0),
            if self.name.is_empty() {
                "mac"
            } else {
                &self.name
            }
        )
        .fetch_one(&mut **tx)
        .await?;
        Ok(device)
    }
}
