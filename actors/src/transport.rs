//! What a session and the thing that holds its socket say to each other. Nothing here knows HTTP.

use actix::Message;
use fencepost_domain::ids::RequestId;
use fencepost_protocol::{AgentEnvelope, GatewayEnvelope, LeaseRef};

/// Session → socket.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub enum ToTransport {
    /// Write this frame.
    Send(Box<GatewayEnvelope>),
    /// Close the socket.
    Close {
        /// A code of `fencepost_protocol::close`.
        code: u16,
        /// For the log of the other side.
        reason: String,
    },
}

/// Socket → session.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub enum FromTransport {
    /// A frame came.
    Frame(Box<AgentEnvelope>),
    /// A message came that is no frame.
    Unreadable {
        /// The request's id, if it could be made out.
        request_id: Option<RequestId>,
        /// The lease that it is about, if that could be made out.
        lease: Option<LeaseRef>,
        /// What is wrong with it.
        problem: String,
    },
    /// The socket is gone.
    Closed,
}
