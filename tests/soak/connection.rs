//! A device's socket that may end at any moment, which is no failure here.

use std::time::Duration;

use fencepost_domain::ids::RequestId;
use fencepost_protocol::{AgentEnvelope, AgentFrame, GatewayEnvelope, GatewayFrame, LeaseOffer};
use fencepost_tests::agent_client::Device;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(4);

/// The socket has ended, or says nothing.
#[derive(Debug)]
pub(crate) struct Gone;

/// One socket.
pub(crate) struct Connection {
    socket: WebSocketStream<TcpStream>,
    /// The port that it goes to.
    pub(crate) port: u16,
}

impl Connection {
    /// Connects, if somebody listens.
    pub(crate) async fn dial(device: &Device, port: u16) -> Option<Self> {
        let dialling = tokio::time::timeout(PATIENCE, device.try_dial(port)).await;
        let socket = dialling.ok()?.ok()?;
        Some(Self { socket, port })
    }

    async fn say(&mut self, frame: AgentFrame) -> Result<RequestId, Gone> {
        let request_id = RequestId::new();
        let envelope = AgentEnvelope { request_id, frame };
        let text = serde_json::to_string(&envelope).expect("a frame can be written");
        let saying = self.socket.send(Message::text(text));
        match tokio::time::timeout(PATIENCE, saying).await {
            Ok(Ok(())) => Ok(request_id),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    async fn hear(&mut self) -> Result<GatewayEnvelope, Gone> {
        loop {
            let heard = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match heard {
                Ok(Some(Ok(Message::Text(text)))) => {
                    return Ok(serde_json::from_str(&text).expect("a frame of ours"));
                }
                Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return Err(Gone),
                Ok(Some(Ok(_))) => {}
            }
        }
    }

    /// Says a frame and waits for its answer; whatever else is heard is dropped.
    pub(crate) async fn ask(&mut self, frame: AgentFrame) -> Result<GatewayFrame, Gone> {
        let request = self.say(frame).await?;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < deadline {
            let heard = self.hear().await?;
            if heard.request_id == Some(request) {
                return Ok(heard.frame);
            }
        }
        Err(Gone)
    }

    /// Asks for work; `None` if there is none.
    pub(crate) async fn pull(&mut self) -> Result<Option<LeaseOffer>, Gone> {
        self.say(AgentFrame::Pull { slots_free: 1 }).await?;
        loop {
            match self.hear().await?.frame {
                GatewayFrame::LeaseOffer(offer) => return Ok(Some(*offer)),
                GatewayFrame::NoWork => return Ok(None),
                // The gateway's heartbeat proves that it is there, not that it heard us.
                GatewayFrame::Heartbeat => {
                    self.say(AgentFrame::Heartbeat).await?;
                }
                _ => {}
            }
        }
    }
}
