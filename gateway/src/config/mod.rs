//! What an operator may choose, from `fencepost.toml`, the environment and flags, checked at start.
//!
//! A key that nobody knows is refused by name, wherever it came from: a misspelt `lease.ttl` that
//! is silently ignored is how two Macs come to hold one lease. Relations between keys are checked
//! in [`validate`], which names both.

mod artifacts;
mod database;
mod egress;
mod http;
mod leases;
mod load;
mod prices;
mod retention;
mod s3;
mod secret;
mod telemetry;
mod validate;
mod verifier;
mod webhooks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use artifacts::{ArtifactsConfig, ArtifactsKind};
pub use database::DatabaseConfig;
pub use egress::EgressConfig;
pub use http::{AdminConfig, HttpConfig};
pub use leases::LeasesConfig;
pub use load::{Origins, load};
pub use prices::PriceConfig;
pub use retention::{QuotasConfig, RetentionConfig};
pub use s3::S3Config;
pub use secret::Secret;
pub use telemetry::{LogFormat, TelemetryConfig};
pub use verifier::VerifierConfig;
pub use webhooks::WebhooksConfig;

/// Everything there is to configure; one field per section of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where buyers and agents connect.
    pub http: HttpConfig,
    /// Where operators look.
    pub admin: AdminConfig,
    /// Where Postgres is.
    pub database: DatabaseConfig,
    /// The lengths of time that decide about leases.
    pub leases: LeasesConfig,
    /// Where bytes are kept and how links are signed.
    pub artifacts: ArtifactsConfig,
    /// How long files and records are kept.
    pub retention: RetentionConfig,
    /// What an org may use, unless it has limits of its own.
    pub quotas: QuotasConfig,
    /// What each service costs.
    pub prices: BTreeMap<String, PriceConfig>,
    /// How outputs are checked.
    pub verifier: VerifierConfig,
    /// How webhooks are signed.
    pub webhooks: WebhooksConfig,
    /// Where requests may go whose addresses buyers chose.
    pub egress: EgressConfig,
    /// How the process reports about itself.
    pub telemetry: TelemetryConfig,
}

/// Why the configuration is refused. Names the key; never shows a secret.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl ConfigError {
    /// A complaint about one key.
    pub fn about(key: &str, problem: impl std::fmt::Display) -> Self {
        Self(format!("{key}: {problem}"))
    }
}

#[cfg(test)]
mod tests;
