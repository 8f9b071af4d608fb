//! Values that must not be seen.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize, Serializer};

use super::ConfigError;

/// A text that is shown by nothing: neither `Debug`, nor a printed configuration.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Reads a secret from a file, without the line break at its end. `key` is the configuration
    /// key that names the file.
    pub fn from_file(key: &str, file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            ConfigError::about(key, format!("cannot read {}: {error}", file.display()))
        })?;
        Ok(Self(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The secret itself, for the one call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(secret)")
    }
}
