//! Every identifier has a kind, so that no two can be swapped by mistake.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Declares one newtype per kind of identifier.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        #[schemars(inline)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new identifier (UUIDv7: ids made later sort later).
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }
    )+};
}

ids! {
    /// A buyer's account, which is also the scope of a lease.
    OrgId,
    /// An account that owns devices and earns.
    ProviderId,
    /// One Mac.
    DeviceId,
    /// What a buyer asked for.
    JobId,
    /// One run of a job on one device.
    AttemptId,
    /// One file that a buyer sent.
    UploadId,
    /// One event in an attempt's journal; chosen by its writer.
    EventId,
    /// One permission to read or write one object.
    GrantId,
    /// One API key of an org.
    ApiKeyId,
    /// One enrollment code.
    EnrollmentId,
    /// What an agent puts on a frame so that it knows the answer again.
    RequestId,
    /// One address that a buyer's events are sent to.
    EndpointId,
    /// One event that buyers are told of.
    OutboxId,
    /// One run of an agent process; differs between two copies of one agent.
    InstanceId,
}

/// A session's number: minted from a counter on the device, so that of two sessions of one device
/// it is always known which is newer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct SessionNumber(pub i64);

impl fmt::Display for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
