//! A device works no more, or again.
//!
//! Locks: the device, then what its agent holds. Writes: the switch and its note; the sessions it has
//! had are void, so no hello that is under way brings one back; its leases end in the same
//! transaction, so a frame that is under way is refused by the fence and not by a closed socket.

use fencepost_domain::ids::DeviceId;

use serde_json::json;

use super::revoke::revoke_leases_of;
use crate::admin::audit::AuditLine;
use crate::error::StoreError;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::run::{Store, Transaction, Tx};

impl Store {
    /// Disables a device, for a reason that people will read; the attempts that ended by it. `None`
    /// if there is no such device.
    pub async fn disable_device(
        &self,
        device: DeviceId,
        note: Option<&str>,
    ) -> Result<Option<Vec<FinalizedAttempt>>, StoreError> {
        let note = note.map(str::to_owned);
        let line = self.audit_line("device.disable", &device);
        let disable = DisableDevice { device, note, line };
        let ended = self.execute(disable).await?;
        Ok(ended.map(|ended| {
            ended
                .into_iter()
                .map(FinalizedAttempt::after_commit)
                .collect()
        }))
    }

    /// Lets a device work again; false if there is no such device.
    pub async fn enable_device(&self, device: DeviceId) -> Result<bool, StoreError> {
        let line = self.audit_line("device.enable", &device);
        self.execute(EnableDevice { device, line }).await
    }
}

struct DisableDevice {
    device: DeviceId,
    note: Option<String>,
    line: AuditLine,
}

impl Transaction for DisableDevice {
    const NAME: &'static str = "disable_device";
    type Output = Option<Vec<Ended>>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        if !disable(tx, self.device, self.note.as_deref()).await? {
            return Ok(None);
        }
        let why = "the device was disabled";
        let ended = revoke_leases_of(tx, self.device, why).await?;
        let attempts: Vec<_> = ended.iter().map(|end| end.attempt).collect();
        let detail = json!({ "note": self.note, "ended_attempts": attempts });
        self.line.write(tx, detail).await?;
        Ok(Some(ended))
    }
}

/// Flips the switch, which locks the device; false if there is none.
pub(super) async fn disable(
    tx: &mut Tx,
    device: DeviceId,
    note: Option<&str>,
) -> Result<bool, StoreError> {
    let written = sqlx::query!(
        r#"-- disable_device
        update devices set enabled = false, note = $2, current_session = null,
            void_through = session_counter, supersedes = '{}'
        where id = $1"#,
        device.0,
        note
    )
    .execute(&mut **tx)
    .await?;
    Ok(written.rows_affected() == 1)
}

struct EnableDevice {
    device: DeviceId,
    line: AuditLine,
}

impl Transaction for EnableDevice {
    const NAME: &'static str = "enable_device";
    type Output = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let written = sqlx::query!(
            "-- enable_device
            update devices set enabled = true, note = null, forgiven_at = authority_now()
            where id = $1",
            self.device.0
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
