//! One WebSocket to the gateway: frames in, frames out, and how it ended.
//!
//! Reading and writing are two tasks, so that a gateway that does not read cannot keep us from
//! hearing it. Both queues are bounded; a full one is a dead socket, not a reason to wait.

use std::time::Duration;

use fencepost_protocol::{AgentEnvelope, GatewayEnvelope, MAX_MESSAGE_BYTES};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use url::Url;

use crate::clock::{self, Moment};
use crate::credential::DeviceToken;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Shorter than the rest of a lease after a missed renewal.
const DIAL_TIME: Duration = Duration::from_secs(5);
const WRITE_TIME: Duration = Duration::from_secs(10);
const CLOSE_TIME: Duration = Duration::from_secs(1);
const FRAMES_IN_FLIGHT: usize = 64;

/// Why there is no socket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The device token is not accepted.
    #[error("the gateway does not accept this device's token")]
    Unauthorized,
    /// The gateway asks for patience.
    #[error("the gateway is overloaded or going down (HTTP {0})")]
    TryLater(u16),
    /// The agent is too old.
    #[error("the gateway wants a newer agent")]
    Outdated,
    /// Not reached.
    #[error("the gateway was not reached: {0}")]
    Unreachable(String),
}

/// What a socket brings.
#[derive(Debug)]
pub enum Heard {
    /// A frame.
    Frame(Box<GatewayEnvelope>),
    /// The end, with the close code if one was sent.
    Closed {
        /// The code.
        code: Option<u16>,
        /// For the log.
        why: String,
    },
}

/// An open socket. Dropping it cuts the connection.
#[derive(Debug)]
pub struct Connection {
    heard: mpsc::Receiver<Heard>,
    say: mpsc::Sender<AgentEnvelope>,
    tasks: JoinSet<()>,
    opened: Moment,
}

impl Connection {
    /// Dials after `wait`.
    pub async fn dial(url: Url, token: DeviceToken, wait: Duration) -> Result<Self, DialError> {
        tokio::time::sleep(wait).await;
        let unreachable = |error: &Error| DialError::Unreachable(crate::pairing::causes(error));
        let mut request = url
            .as_str()
            .into_client_request()
            .map_err(|error| unreachable(&error))?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| DialError::Unauthorized)?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let dialling = connect_async_with_config(request, Some(config), true);
        match tokio::time::timeout(DIAL_TIME, dialling).await {
            Ok(Ok((socket, _))) => Ok(Self::start(socket)),
            Ok(Err(Error::Http(response))) => Err(refused(response.status())),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(_) => Err(DialError::Unreachable("no answer within 5 s".to_owned())),
        }
    }

    fn start(socket: Socket) -> Self {
        let (sink, stream) = socket.split();
        let (say, to_say) = mpsc::channel(FRAMES_IN_FLIGHT);
        let (hear, heard) = mpsc::channel(FRAMES_IN_FLIGHT);
        let mut tasks = JoinSet::new();
        tasks.spawn(write(sink, to_say, hear.clone()));
        tasks.spawn(read(stream, hear));
        Self {
            heard,
            say,
            tasks,
            opened: clock::now(),
        }
    }

    /// When it was opened.
    pub fn opened(&self) -> Moment {
        self.opened
    }

    /// The next thing heard. May be dropped and called again without losing anything.
    pub async fn hear(&mut self) -> Heard {
        let silent = || Heard::Closed {
            code: None,
            why: "the socket broke".to_owned(),
        };
        self.heard.recv().await.unwrap_or_else(silent)
    }

    /// Queues a frame; `false` means that the socket is of no use any more.
    pub fn say(&self, envelope: AgentEnvelope) -> bool {
        self.say.try_send(envelope).is_ok()
    }

    /// Says what is queued, closes politely, and cuts the line if that takes too long.
    pub async fn close(self) {
        let Self {
            say,
            mut tasks,
            heard,
            ..
        } = self;
        drop(say);
        // The writer ends once everything is said; the reader when the other side has closed too.
        let both = async { while tasks.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(CLOSE_TIME, both).await.is_ok();
        tracing::debug!(in_time, "the socket is closed");
        drop(heard);
    }
}

fn refused(status: StatusCode) -> DialError {
    match status.as_u16() {
        401 | 403 => DialError::Unauthorized,
        426 => DialError::Outdated,
        code @ (429 | 503) => DialError::TryLater(code),
        code => DialError::Unreachable(format!("it answered with HTTP {code}")),
    }
}

async fn write(
    mut sink: SplitSink<Socket, Message>,
    mut to_say: mpsc::Receiver<AgentEnvelope>,
    hear: mpsc::Sender<Heard>,
) {
    let why = loop {
        let Some(envelope) = to_say.recv().await else {
            // Nobody will say anything any more.
            let _ = tokio::time::timeout(CLOSE_TIME, sink.close()).await;
            return;
        };
        let text = match serde_json::to_string(&envelope) {
            Ok(text) => text,
            Err(error) => break format!("a frame could not be written: {error}"),
        };
        match tokio::time::timeout(WRITE_TIME, sink.send(Message::text(text))).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => break error.to_string(),
            Err(_) => break "the gateway does not read".to_owned(),
        }
    };
    // If the reader has said so first, the queue may be closed, which is as good.
    let _ = hear.send(Heard::Closed { code: None, why }).await;
}

async fn read(mut stream: SplitStream<Socket>, hear: mpsc::Sender<Heard>) {
    let end = loop {
        let heard = match stream.next().await {
            Some(Ok(Message::Text(text))) => serde_json::from_str(text.as_str())
                .map(|envelope| Heard::Frame(Box::new(envelope)))
                .inspect_err(|error| tracing::warn!(%error, "a frame was not understood"))
                .ok(),
            Some(Ok(Message::Close(frame))) => {
                let code = frame.as_ref().map(|frame| frame.code.into());
                let why = frame
                    .map(|frame| frame.reason.to_string())
                    .unwrap_or_default();
                break Heard::Closed { code, why };
            }
            Some(Ok(_)) => None,
            Some(Err(error)) => {
                break Heard::Closed {
                    code: None,
                    why: error.to_string(),
                };
            }
            None => {
                break Heard::Closed {
                    code: None,
                    why: "the socket ended".to_owned(),
                };
            }
        };
        if let Some(heard) = heard
            && hear.send(heard).await.is_err()
        {
            return;
        }
    };
    let _ = hear.send(end).await;
}
