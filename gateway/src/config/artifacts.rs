//! `[artifacts]`: where bytes are kept and how links to them are signed.

use std::path::PathBuf;

use fencepost_domain::duration::LeaseDuration;
use fencepost_store::artifacts::SigningKey;
use serde::{Deserialize, Serialize};

use super::{ConfigError, S3Config, Secret};

/// Where bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactsKind {
    /// In a folder; they pass through the gateway.
    #[default]
    Disk,
    /// In a bucket that speaks S3; they pass the gateway by.
    S3,
}

/// `[artifacts]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArtifactsConfig {
    /// `disk` or `s3`.
    pub kind: ArtifactsKind,
    /// The bucket, for `s3`.
    pub s3: S3Config,
    /// The folder for all inputs and outputs, for `disk`. All gateways of an installation see the same one.
    pub dir: PathBuf,
    /// A file with the secret that signs links, at least 32 characters, the same for all gateways.
    pub signing_key_file: Option<PathBuf>,
    /// The secret itself; better in the file or in `FENCEPOST_ARTIFACTS__SIGNING_KEY`.
    pub signing_key: Option<Secret>,
    /// The most bytes of one input or output.
    pub max_upload_bytes: u64,
    /// How long a transfer may go on after its link has expired. What ended attempts have left is
    /// deleted so much later.
    pub longest_transfer: LeaseDuration,
}

impl Default for ArtifactsConfig {
    fn default() -> Self {
        Self {
            kind: ArtifactsKind::default(),
            s3: S3Config::default(),
            dir: PathBuf::from("artifacts"),
            signing_key_file: None,
            signing_key: None,
            max_upload_bytes: 20 * 1024 * 1024 * 1024,
            longest_transfer: LeaseDuration::seconds(6 * 3600),
        }
    }
}

impl ArtifactsConfig {
    /// The key that signs links, wherever it was given.
    pub fn signing_key(&self) -> Result<SigningKey, ConfigError> {
        let (key, secret) = self.find_secret()?;
        SigningKey::new(secret.expose().as_bytes().to_vec())
            .map_err(|problem| ConfigError::about(key, problem))
    }

    /// The secret behind it, from which others are derived.
    pub(super) fn signing_secret(&self) -> Result<Secret, ConfigError> {
        Ok(self.find_secret()?.1)
    }

    fn find_secret(&self) -> Result<(&'static str, Secret), ConfigError> {
        match (&self.signing_key, &self.signing_key_file) {
            (Some(secret), None) => Ok(("artifacts.signing_key", secret.clone())),
            (None, Some(file)) => {
                let key = "artifacts.signing_key_file";
                Ok((key, Secret::from_file(key, file)?))
            }
            (Some(_), Some(_)) => Err(ConfigError::about(
                "artifacts.signing_key_file",
                "give either this or artifacts.signing_key, not both",
            )),
            (None, None) => Err(ConfigError::about(
                "artifacts.signing_key_file",
                "is needed: a file with at least 32 random characters, for example from \
                 `openssl rand -hex 32`",
            )),
        }
    }
}
