//! `[verifier]`: how outputs are checked before they are published.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[verifier]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierConfig {
    /// How many outputs are checked at once. Each check decodes one.
    pub concurrency: usize,
    /// The `ffmpeg` to use; without it, it is looked for.
    pub ffmpeg: Option<PathBuf>,
    /// The `ffprobe` to use; without it, it is looked for.
    pub ffprobe: Option<PathBuf>,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self {
            concurrency: 2,
            ffmpeg: None,
            ffprobe: None,
        }
    }
}
