//! Frames in, frames out, and nothing to remember.

use std::time::Duration;

use actix::dev::SendError;
use actix::{Actor, ActorContext as _, AsyncContext as _, Handler, Recipient, StreamHandler};
use actix_http::ws::Item;
use actix_web_actors::ws::{CloseCode, CloseReason, Message, ProtocolError, WebsocketContext};
use fencepost_actors::transport::{FromTransport, ToTransport};
use fencepost_protocol::{GatewayEnvelope, GatewayFrame, MAX_MESSAGE_BYTES, close};

use super::assembly::{Assembled, Assembly};
use super::connection::Cutter;
use super::intake::Level;
use super::outlet::{BURST, Outlet};
use super::reading::{self, Unreadable};

/// How many frames may wait for a peer that is slow to read.
const OUTGOING: usize = 2 * BURST;
/// How long we wait for the peer's half of the closing.
const CLOSING: Duration = Duration::from_secs(2);
/// When an agent may repeat what its session had no room for.
const BUSY_MS: u64 = 250;

/// Starts the session, given the way out to its agent; `None` if there can be none now.
pub(super) type OpenSession =
    Box<dyn FnOnce(Recipient<ToTransport>) -> Option<Recipient<FromTransport>>>;

/// One socket.
pub(super) struct Transport {
    open: Option<OpenSession>,
    session: Option<Recipient<FromTransport>>,
    assembly: Assembly,
    level: Level,
    cutter: Cutter,
    closing: bool,
}

impl Transport {
    /// The socket behind `cutter`, whose bytes come in under `level`.
    pub(super) fn new(open: OpenSession, level: Level, cutter: Cutter) -> Self {
        Self {
            open: Some(open),
            session: None,
            assembly: Assembly::new(MAX_MESSAGE_BYTES),
            level,
            cutter,
            closing: false,
        }
    }

    fn receive(&mut self, bytes: &[u8], ctx: &mut WebsocketContext<Self>) {
        match reading::read(bytes) {
            Ok(envelope) => self.hand_over(FromTransport::Frame(Box::new(envelope)), ctx),
            Err(unreadable) => self.report(unreadable, ctx),
        }
    }

    fn report(&mut self, unreadable: Unreadable, ctx: &mut WebsocketContext<Self>) {
        let message = FromTransport::Unreadable {
            request_id: unreadable.request_id,
            lease: unreadable.lease,
            problem: unreadable.problem,
        };
        self.hand_over(message, ctx);
    }

    /// Hands a frame to the session; a session that has no room says so to the agent.
    fn hand_over(&mut self, message: FromTransport, ctx: &mut WebsocketContext<Self>) {
        let Some(session) = &self.session else {
            return self.close(close::TRY_LATER, "", ctx);
        };
        match session.try_send(message) {
            Ok(()) => {}
            Err(SendError::Full(message)) => {
                metrics::counter!("fencepost_mailbox_refused_total", "actor" => "session")
                    .increment(1);
                write(&busy(&message), ctx);
            }
            Err(SendError::Closed(_)) => self.close(close::RESTART, "the session has ended", ctx),
        }
    }

    /// Says goodbye, and waits a little for the answer.
    fn close(&mut self, code: u16, reason: &str, ctx: &mut WebsocketContext<Self>) {
        if self.closing {
            return;
        }
        self.closing = true;
        ctx.close(Some(CloseReason {
            code: CloseCode::from(code),
            description: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        }));
        ctx.run_later(CLOSING, |_, ctx| ctx.stop());
    }
}

impl Actor for Transport {
    type Context = WebsocketContext<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(OUTGOING);
        let outlet = Outlet::new(ctx.address(), self.cutter.clone()).start();
        self.session = self.open.take().and_then(|open| open(outlet.recipient()));
        if self.session.is_none() {
            self.close(close::RESTART, "the gateway is going down", ctx);
        }
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        if let Some(session) = self.session.take()
            && let Err(SendError::Full(_)) = session.try_send(FromTransport::Closed)
        {
            // It notices by itself, by the silence, a little later.
            tracing::warn!("a session had no room to hear that its socket is closed");
        }
    }
}

impl StreamHandler<Result<Message, ProtocolError>> for Transport {
    fn handle(&mut self, item: Result<Message, ProtocolError>, ctx: &mut Self::Context) {
        if let Ok(message) = &item {
            self.level.took(payload_bytes(message));
        }
        match item {
            Ok(Message::Close(_)) => {
                if !self.closing {
                    ctx.close(None);
                }
                ctx.stop();
            }
            Err(_) if self.closing => ctx.stop(),
            Ok(_) if self.closing => {}
            Ok(Message::Text(text)) => self.receive(text.as_bytes(), ctx),
            Ok(Message::Continuation(fragment)) => match self.assembly.add(fragment) {
                Assembled::Partly => {}
                Assembled::Text(bytes) => self.receive(&bytes, ctx),
                Assembled::Binary => self.report(no_binary(), ctx),
                Assembled::TooLarge => self.too_large(ctx),
            },
            Ok(Message::Binary(_)) => self.report(no_binary(), ctx),
            Ok(Message::Ping(payload)) => ctx.pong(&payload),
            Ok(Message::Pong(_) | Message::Nop) => {}
            Err(ProtocolError::Overflow) => self.too_large(ctx),
            Err(_) if self.level.is_over() => self.too_large(ctx),
            Err(error) => {
                tracing::info!(%error, "an agent's socket broke");
                self.close(1002, "", ctx);
            }
        }
    }
}

impl Transport {
    fn too_large(&mut self, ctx: &mut WebsocketContext<Self>) {
        // The rest of it, which may be long, is nobody's.
        self.level.discard();
        let limit = format!("a message may have at most {MAX_MESSAGE_BYTES} bytes");
        self.close(close::TOO_LARGE, &limit, ctx);
    }
}

impl Handler<ToTransport> for Transport {
    type Result = ();

    fn handle(&mut self, message: ToTransport, ctx: &mut Self::Context) {
        match message {
            ToTransport::Send(envelope) if !self.closing => write(&envelope, ctx),
            ToTransport::Send(_) => {}
            ToTransport::Close { code, reason } => self.close(code, &reason, ctx),
        }
    }
}

fn payload_bytes(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes)
        | Message::Ping(bytes)
        | Message::Pong(bytes)
        | Message::Continuation(
            Item::FirstText(bytes)
            | Item::FirstBinary(bytes)
            | Item::Continue(bytes)
            | Item::Last(bytes),
        ) => bytes.len(),
        // After these, nothing comes that matters.
        Message::Close(_) | Message::Nop => 0,
    }
}

fn no_binary() -> Unreadable {
    Unreadable {
        request_id: None,
        lease: None,
        problem: "messages are text".to_owned(),
    }
}

/// The answer to a frame that the session had no room for.
fn busy(message: &FromTransport) -> GatewayEnvelope {
    let (request_id, lease) = match message {
        FromTransport::Frame(envelope) => (Some(envelope.request_id), envelope.frame.lease()),
        FromTransport::Unreadable {
            request_id, lease, ..
        } => (*request_id, *lease),
        FromTransport::Closed => (None, None),
    };
    GatewayEnvelope {
        request_id,
        lease,
        frame: GatewayFrame::Busy {
            retry_after_ms: BUSY_MS,
        },
    }
}

fn write(envelope: &GatewayEnvelope, ctx: &mut WebsocketContext<Transport>) {
    match serde_json::to_string(envelope) {
        Ok(text) => ctx.text(text),
        Err(error) => tracing::error!(%error, "a frame of ours cannot be written"),
    }
}
