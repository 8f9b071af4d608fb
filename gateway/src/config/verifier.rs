//! `[verifier]`: how outputs are checked before they are published.

use serde::{Deserialize, Serialize};

/// `[verifier]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierConfig {
    /// How many outputs are checked at once. Each check decodes one.
    pub concurrency: usize,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self { concurrency: 2 }
    }
}
