//! The one org and the one provider that `dev` sets up, remembered in a file.

use std::path::Path;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{OrgId, ProviderId};
use fencepost_store::Store;
use fencepost_store::admin::NewEnrollment;
use serde::{Deserialize, Serialize};

use super::write_private;
use crate::cli::CliError;

const NAME: &str = "dev";
/// 1,000 currency units: enough for a long day of trying.
const CREDIT_MICROS: i64 = 1_000_000_000;

/// Who was set up. The file is for its owner's eyes: the key is in it.
#[derive(Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) org_id: OrgId,
    pub(super) provider_id: ProviderId,
    pub(super) api_key: String,
}

impl Account {
    /// What an earlier run set up, or a new org, key, provider and credit.
    pub(super) async fn load_or_create(store: &Store, file: &Path) -> Result<Self, CliError> {
        if file.exists() {
            let text = std::fs::read_to_string(file)?;
            return serde_json::from_str(&text).map_err(|_| {
                let file = file.display();
                CliError::Refused(format!("{file} is damaged: delete the state folder"))
            });
        }
        let org_id = store.create_org(NAME, None).await?;
        let key = store.create_api_key(org_id, false).await?;
        let (_, key) = key.ok_or_else(|| CliError::unknown("org", org_id))?;
        store.add_credit(org_id, CREDIT_MICROS).await?;
        let account = Self {
            org_id,
            provider_id: store.create_provider(NAME).await?,
            api_key: key.expose().to_owned(),
        };
        let text = serde_json::to_string_pretty(&account).map_err(std::io::Error::from)?;
        write_private(file, &text)?;
        Ok(account)
    }

    /// A new one-use code for a Mac.
    pub(super) async fn enrollment_code(&self, store: &Store) -> Result<String, CliError> {
        let enrollment = NewEnrollment {
            provider: self.provider_id,
            device: None,
            own_org: Some(self.org_id),
            labels: Vec::new(),
            valid_for: LeaseDuration::seconds(15 * 60),
        };
        let code = store.create_enrollment(enrollment).await?;
        let code = code.ok_or_else(|| CliError::unknown("provider", self.provider_id))?;
        Ok(code.expose().to_owned())
    }
}
