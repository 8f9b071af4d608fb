//! Who this agent is, on disk, and the secrets it must never show.
//!
//! Neither secret has a `Debug`, so that no struct that holds one can be logged by accident.

use std::io;
use std::path::Path;

use fencepost_domain::ids::{DeviceId, ProviderId};
use serde::{Deserialize, Serialize};

use crate::state_dir::{StateDirError, io_at, write_atomically};

/// A one-use enrollment code as a provider got it.
pub struct EnrollmentCode(String);

/// The longest code that is read at all.
pub const MAX_CODE_BYTES: usize = 200;
const CODE_PREFIX: &str = "fp_pair_";

impl EnrollmentCode {
    /// Takes the code out of what was typed or read. `None` if it does not look like one; what it
    /// looks like is not repeated.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let plausible = text.starts_with(CODE_PREFIX)
            && text.len() <= MAX_CODE_BYTES
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        plausible.then(|| Self(text.to_owned()))
    }

    /// The text that goes into the pairing request. Call it nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// The secret that authenticates this device.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceToken(String);

impl DeviceToken {
    /// The text that goes into the `Authorization` header. Call it nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// `device.json`.
#[derive(Clone, Serialize, Deserialize)]
pub struct DeviceFile {
    /// The gateway's HTTP address.
    pub gateway: String,
    /// This device.
    pub device_id: DeviceId,
    /// The account that it earns for.
    pub provider_id: ProviderId,
    /// What its owner calls it.
    pub device_name: String,
    /// Its secret.
    pub device_token: DeviceToken,
}

/// Why there is no usable credential.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// Never paired.
    #[error("this agent is not paired yet: run `fencepost-agent pair` with the same --state-dir")]
    NotPaired,
    /// The file is there but not readable as one.
    #[error("{0} is damaged: run `fencepost-agent pair` again")]
    Damaged(String),
    /// The file system said no.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
}

impl DeviceFile {
    /// Reads the credential.
    pub fn read(path: &Path) -> Result<Self, CredentialError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CredentialError::NotPaired);
            }
            Err(error) => return Err(io_at(path, error).into()),
        };
        // The parser's own message would quote the file.
        serde_json::from_slice(&bytes)
            .map_err(|_| CredentialError::Damaged(path.display().to_string()))
    }

    /// Writes the credential, for the owner's eyes only.
    pub fn write(&self, path: &Path) -> Result<(), StateDirError> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| io_at(path, error.into()))?;
        write_atomically(path, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_what_looks_like_a_code_is_taken() {
        assert_eq!(
            EnrollmentCode::parse(" fp_pair_aB-9_x\n").unwrap().expose(),
            "fp_pair_aB-9_x"
        );
        for bad in ["", "fp_live_abc", "fp_pair_a b", "fp_pair_\u{1b}[31m"] {
            assert!(EnrollmentCode::parse(bad).is_none(), "{bad:?}");
        }
        assert!(EnrollmentCode::parse(&format!("fp_pair_{}", "x".repeat(300))).is_none());
    }

    #[test]
    fn a_credential_is_read_back_and_is_the_owners_alone() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("device.json");
        assert!(matches!(
            DeviceFile::read(&path),
            Err(CredentialError::NotPaired)
        ));
        let file = DeviceFile {
            gateway: "http://127.0.0.1:1/".to_owned(),
            device_id: DeviceId::new(),
            provider_id: ProviderId::new(),
            device_name: "studio".to_owned(),
            device_token: DeviceToken("fp_device_secret".to_owned()),
        };
        file.write(&path).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let read = DeviceFile::read(&path).ok().unwrap();
        assert_eq!(read.device_id, file.device_id);
        assert!(read.device_token.expose() == file.device_token.expose());
    }

    #[test]
    fn a_damaged_credential_is_refused_without_being_quoted() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("device.json");
        std::fs::write(&path, "{\"device_token\": fp_device_secret").unwrap();
        let error = DeviceFile::read(&path).err().unwrap().to_string();
        assert!(!error.contains("fp_device_secret"), "{error}");
    }
}
