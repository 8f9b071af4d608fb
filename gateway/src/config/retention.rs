//! `[retention]` and `[quotas]`: how long files and records are kept, and how much of them.

use fencepost_store::settings::{Quotas, Retention};
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// `[retention]`, in days.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    /// Inputs, output and artifacts of a job, after its end. What was promised when a job ended stays
    /// so.
    pub files_days: u16,
    /// Uploads that no job ever started with.
    pub unused_uploads_days: u16,
    /// Records of jobs (attempts, journals, events), after their end. Money is kept for ever.
    pub records_days: u16,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        let default = Retention::default();
        Self {
            files_days: default.files_days,
            unused_uploads_days: default.unused_uploads_days,
            records_days: default.records_days,
        }
    }
}

impl From<RetentionConfig> for Retention {
    fn from(config: RetentionConfig) -> Self {
        Self {
            files_days: config.files_days,
            unused_uploads_days: config.unused_uploads_days,
            records_days: config.records_days,
        }
    }
}

impl RetentionConfig {
    pub(super) fn validate(self) -> Result<(), ConfigError> {
        for (key, days) in [
            ("retention.files_days", self.files_days),
            ("retention.unused_uploads_days", self.unused_uploads_days),
            ("retention.records_days", self.records_days),
        ] {
            if !(1..=3_650).contains(&days) {
                return Err(ConfigError::about(key, "must be between 1 and 3650"));
            }
        }
        if self.records_days <= self.files_days {
            return Err(ConfigError::about(
                "retention.records_days",
                format!(
                    "{} must be more than retention.files_days = {}",
                    self.records_days, self.files_days
                ),
            ));
        }
        Ok(())
    }
}

/// `[quotas]`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotasConfig {
    /// The most jobs of an org that have not ended.
    pub open_jobs: i64,
    /// The most bytes of an org's uploads and outputs.
    pub stored_bytes: i64,
}

impl Default for QuotasConfig {
    fn default() -> Self {
        let default = Quotas::default();
        Self {
            open_jobs: default.open_jobs,
            stored_bytes: default.stored_bytes,
        }
    }
}

impl From<QuotasConfig> for Quotas {
    fn from(config: QuotasConfig) -> Self {
        Self {
            open_jobs: config.open_jobs,
            stored_bytes: config.stored_bytes,
        }
    }
}

impl QuotasConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        for (key, most) in [
            ("quotas.open_jobs", self.open_jobs),
            ("quotas.stored_bytes", self.stored_bytes),
        ] {
            if most < 0 {
                return Err(ConfigError::about(key, "must not be negative"));
            }
        }
        Ok(())
    }
}
