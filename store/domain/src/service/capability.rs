//! What a device can do, in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that a device has shown it can do, such as `transcode.v1` or `videotoolbox.h264`.
///
/// The agent states a capability only after it ran it once (an encoder that lists itself may still
/// refuse to open).
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Capability(#[schemars(regex(pattern = "^[!-~]{1,100}$"))] pub String);

impl Capability {
    /// A capability by its word.
    pub fn new(word: impl Into<String>) -> Self {
        Self(word.into())
    }

    /// Whether it is one short word of printable ASCII, as all are that a job can ask for.
    pub fn is_readable(&self) -> bool {
        (1..=100).contains(&self.0.len()) && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}
