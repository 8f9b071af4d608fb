//! A device's WebSocket, and the first words on it.

use std::net::SocketAddr;
use std::time::Duration;

use fencepost_domain::ids::{InstanceId, RequestId};
use fencepost_domain::service::{Capability, ServiceName};
use fencepost_protocol::{
    AgentEnvelope, AgentFrame, GatewayEnvelope, GatewayFrame, Hello, Intervals, PROTOCOL,
};
use fencepost_store::secrets::Credential;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::error::LoadError;

/// Small buffers: thousands of these sockets live in one process.
const BUFFER_BYTES: usize = 4 * 1024;

const WELCOME_WITHIN: Duration = Duration::from_secs(30);

/// A socket on which the gateway has said welcome.
pub(crate) struct Socket {
    stream: WebSocketStream<TcpStream>,
    /// How often to do what.
    pub(crate) intervals: Intervals,
}

impl Socket {
    /// Connects, says hello, waits for the welcome.
    pub(crate) async fn open(
        gateway: SocketAddr,
        token: &Credential,
        slots: u32,
    ) -> Result<Self, LoadError> {
        let opening = tokio::time::timeout(WELCOME_WITHIN, Self::dial(gateway, token, slots));
        opening.await.unwrap_or_else(|_| {
            let waited = WELCOME_WITHIN.as_secs();
            let what = format!("a device was not welcomed within {waited} s");
            Err(LoadError::Unexpected(what))
        })
    }

    async fn dial(gateway: SocketAddr, token: &Credential, slots: u32) -> Result<Self, LoadError> {
        let mut request = format!("ws://{gateway}/v1/provider/ws")
            .into_client_request()
            .map_err(Box::new)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|error| LoadError::Unexpected(error.to_string()))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(0);
        let stream = TcpStream::connect(gateway).await?;
        stream.set_nodelay(true)?;
        let (stream, _) = client_async_with_config(request, stream, Some(config))
            .await
            .map_err(Box::new)?;
        let mut socket = Self {
            stream,
            intervals: Intervals {
                lease_ttl_ms: 0,
                renew_ms: 0,
                answer_ms: 0,
                heartbeat_ms: 0,
                dead_ms: 0,
                reconnect_max_ms: 0,
            },
        };
        socket.say(RequestId::new(), hello(slots)).await?;
        match socket.hear().await?.frame {
            GatewayFrame::Welcome { intervals, .. } => socket.intervals = intervals,
            other => return Err(unexpected("hello", &other)),
        }
        Ok(socket)
    }

    /// Sends a frame.
    pub(crate) async fn say(
        &mut self,
        request_id: RequestId,
        frame: AgentFrame,
    ) -> Result<(), LoadError> {
        let envelope = AgentEnvelope { request_id, frame };
        let text = serde_json::to_string(&envelope)
            .map_err(|error| LoadError::Unexpected(error.to_string()))?;
        self.stream
            .send(Message::text(text))
            .await
            .map_err(Box::new)?;
        Ok(())
    }

    /// The next frame that is not a heartbeat. May be dropped and called again.
    pub(crate) async fn hear(&mut self) -> Result<GatewayEnvelope, LoadError> {
        loop {
            let message = match self.stream.next().await {
                Some(message) => message.map_err(Box::new)?,
                None => return Err(Box::new(Error::ConnectionClosed).into()),
            };
            match message {
                Message::Text(text) => {
                    let envelope: GatewayEnvelope = serde_json::from_str(text.as_str())
                        .map_err(|error| LoadError::Unexpected(error.to_string()))?;
                    if !matches!(envelope.frame, GatewayFrame::Heartbeat) {
                        return Ok(envelope);
                    }
                }
                Message::Close(close) => {
                    let why = close.map_or_else(String::new, |close| close.to_string());
                    return Err(LoadError::Unexpected(format!("the gateway closed: {why}")));
                }
                _ => {}
            }
        }
    }
}

fn hello(slots: u32) -> AgentFrame {
    AgentFrame::Hello(Hello {
        protocol: PROTOCOL,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        instance_id: InstanceId::new(),
        slots,
        capabilities: vec![Capability::new(ServiceName::NoopV1.as_str())],
        held: Vec::new(),
    })
}

/// An answer that no life contains. Offers are not shown: a secret is in them.
pub(crate) fn unexpected(to: &str, frame: &GatewayFrame) -> LoadError {
    let shown = match frame {
        GatewayFrame::LeaseOffer(_) => "an offer".to_owned(),
        other => format!("{other:?}"),
    };
    LoadError::Unexpected(format!("the answer to {to} was {shown}"))
}
