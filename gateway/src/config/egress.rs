//! `[egress]`: where requests may go whose addresses strangers chose.

use fencepost_egress::AllowList;
use serde::{Deserialize, Serialize};

/// `[egress]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressConfig {
    /// Networks that are allowed although they are not public, such as `10.20.0.0/16`. Empty for good
    /// reason: whoever may name an address reaches them by it.
    pub allow_cidrs: AllowList,
}
