//! `[telemetry]`: how the process reports about itself.

use serde::{Deserialize, Serialize};

/// `[telemetry]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// `text` for people, `json` for machines.
    pub format: LogFormat,
    /// What is logged, such as `info` or `debug,actix_server=warn`.
    pub level: String,
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// One readable line.
    Text,
    /// One JSON object.
    Json,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info,actix_server=warn".to_owned(),
        }
    }
}
