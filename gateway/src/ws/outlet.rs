//! The way out: never stands still, so it notices when the peer does.

use std::time::Duration;

use actix::dev::SendError;
use actix::{Actor, Addr, AsyncContext as _, Context, Handler};
use fencepost_actors::transport::ToTransport;

use super::connection::Cutter;
use super::transport::Transport;

/// How many frames may come from a session at once: the answers to progress that was folded, for as
/// many attempts as a device may hold (64 of 16 each). All of them must fit into the transport, which
/// may have no turn in between.
pub(super) const BURST: usize = 1_024;
/// A peer that was told to close has this long to do so.
const CLOSING: Duration = Duration::from_secs(5);

/// Passes a session's frames on to the transport; cuts the connection when they pile up.
///
/// Ends by itself when the session lets go of it.
pub(super) struct Outlet {
    transport: Addr<Transport>,
    cutter: Cutter,
}

impl Outlet {
    /// The way out to `transport`.
    pub(super) fn new(transport: Addr<Transport>, cutter: Cutter) -> Self {
        Self { transport, cutter }
    }
}

impl Actor for Outlet {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(BURST);
    }
}

impl Handler<ToTransport> for Outlet {
    type Result = ();

    fn handle(&mut self, message: ToTransport, ctx: &mut Self::Context) {
        if matches!(message, ToTransport::Close { .. }) {
            ctx.run_later(CLOSING, |outlet, _| outlet.cutter.cut());
        }
        match self.transport.try_send(message) {
            Err(SendError::Full(_)) => {
                metrics::counter!("fencepost_mailbox_refused_total", "actor" => "transport")
                    .increment(1);
                tracing::warn!("an agent does not read what it is sent: cutting its connection");
                self.cutter.cut();
            }
            // The session hears of it from the transport itself.
            Ok(()) | Err(SendError::Closed(_)) => {}
        }
    }
}
