//! `[database]`: where Postgres is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Secret};

/// `[database]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// `postgres://user:password@host/database`. Has a password in it: better in `url_file` or in
    /// the variable `FENCEPOST_DATABASE__URL`.
    pub url: Option<Secret>,
    /// A file with the URL in it.
    pub url_file: Option<PathBuf>,
    /// The most connections to open.
    pub max_connections: u32,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            max_connections: 16,
        }
    }
}

impl DatabaseConfig {
    /// The URL, wherever it was given.
    pub fn url(&self) -> Result<Secret, ConfigError> {
        match (&self.url, &self.url_file) {
            (Some(url), None) => Ok(url.clone()),
            (None, Some(file)) => Secret::from_file("database.url_file", file),
            (Some(_), Some(_)) => Err(ConfigError::about(
                "database.url_file",
                "give either this or database.url, not both",
            )),
            (None, None) => Err(ConfigError::about(
                "database.url",
                "is needed; set FENCEPOST_DATABASE__URL or database.url_file \
                 (`fencepost dev` needs neither: it brings its own Postgres)",
            )),
        }
    }
}
