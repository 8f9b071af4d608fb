//! What is said on the wire between a gateway and an agent, and nothing else.
//!
//! Frames are JSON texts tagged by `type`. Every agent frame carries a `request_id`; one about an
//! attempt also names its lease. Every answer echoes both. Unknown fields are ignored, so either
//! side may be the newer one; an unknown `type` is answered, never swallowed.
#![warn(missing_docs)]

pub mod agent_frame;
pub mod codes;
pub mod gateway_frame;

pub use agent_frame::{AgentEnvelope, AgentFrame, HeldLease, Hello, LeaseRef, OutputDeclaration};
pub use codes::{Code, Disposition};
pub use gateway_frame::{
    Directive, GatewayEnvelope, GatewayFrame, InputGrant, Intervals, LeaseOffer, Limits, Lost,
    OutputGrant, PartLinks, Recorded, Resumed,
};

/// The protocol version that this build speaks.
pub const PROTOCOL: u32 = 1;
/// The largest message on the wire in either direction, in bytes; fragments count together.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// Close codes of the socket.
pub mod close {
    /// A message was larger than [`super::MAX_MESSAGE_BYTES`].
    pub const TOO_LARGE: u16 = 1009;
    /// The gateway is going down; reconnect.
    pub const RESTART: u16 = 1012;
    /// The gateway is overloaded; reconnect later.
    pub const TRY_LATER: u16 = 1013;
    /// The device was revoked or disabled: do not reconnect.
    pub const REVOKED: u16 = 4001;
    /// Nothing was heard for too long.
    pub const SILENT: u16 = 4008;
    /// A newer session of the same device took over.
    pub const SUPERSEDED: u16 = 4009;
    /// The agent is too old.
    pub const UPGRADE: u16 = 4010;
}

#[cfg(test)]
mod tests;
