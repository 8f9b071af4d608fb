//! `[webhooks]`: what keeps the secrets that webhooks are signed with.

use std::path::PathBuf;

use fencepost_store::identity::Fingerprint;
use fencepost_store::vault::Vault;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, Secret};

const MIN_KEY_BYTES: usize = 32;

/// `[webhooks]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhooksConfig {
    /// A file with the secret that the endpoints' secrets are sealed with in the database, at least 32
    /// characters, the same for all gateways. Without it, the key that signs links does it.
    pub secret_key_file: Option<PathBuf>,
    /// The secret itself; better in the file or in `FENCEPOST_WEBHOOKS__SECRET_KEY`.
    pub secret_key: Option<Secret>,
}

impl WebhooksConfig {
    fn secret_key(&self) -> Result<Option<(&'static str, Secret)>, ConfigError> {
        match (&self.secret_key, &self.secret_key_file) {
            (Some(secret), None) => Ok(Some(("webhooks.secret_key", secret.clone()))),
            (None, Some(file)) => {
                let key = "webhooks.secret_key_file";
                Ok(Some((key, Secret::from_file(key, file)?)))
            }
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(ConfigError::about(
                "webhooks.secret_key_file",
                "give either this or webhooks.secret_key, not both",
            )),
        }
    }
}

impl Config {
    /// What seals and opens the endpoints' secrets. What was sealed before there was a key of its own
    /// stays readable.
    pub fn vault(&self) -> Result<Vault, ConfigError> {
        let secrets = self.sealing_secrets()?;
        let all: Vec<_> = secrets.iter().map(|one| one.expose().as_bytes()).collect();
        Ok(Vault::new(&all))
    }

    /// Of the secret that signs links, and of the one that seals.
    pub fn fingerprints(&self) -> Result<(Fingerprint, Fingerprint), ConfigError> {
        let links = self.artifacts.signing_secret()?;
        let sealing = self.sealing_secrets()?;
        let first = sealing.first().unwrap_or(&links);
        let of = |secret: &Secret| Fingerprint::of(secret.expose().as_bytes());
        Ok((of(&links), of(first)))
    }

    /// The first one seals, all open.
    fn sealing_secrets(&self) -> Result<Vec<Secret>, ConfigError> {
        let own = self.webhooks.secret_key()?;
        if let Some((key, secret)) = &own
            && secret.expose().len() < MIN_KEY_BYTES
        {
            let problem = format!("must have at least {MIN_KEY_BYTES} characters");
            return Err(ConfigError::about(key, problem));
        }
        let own = own.into_iter().map(|(_, secret)| secret);
        Ok(own.chain([self.artifacts.signing_secret()?]).collect())
    }
}
