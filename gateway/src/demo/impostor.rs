//! A Mac that does not behave: it has a paired Mac's token and the lease that this Mac once held,
//! and tries to have its result published all the same.
//!
//! Nothing here uses the agent's code. What stands between this program and the buyer's output is
//! the control plane alone.

use std::path::Path;
use std::time::Duration;

use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ids::{AttemptId, InstanceId, JobId, RequestId};
use fencepost_protocol::{
    AgentEnvelope, AgentFrame, Code, Disposition, GatewayEnvelope, GatewayFrame, Hello, LeaseRef,
    OutputDeclaration, PROTOCOL,
};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::error::DemoError;

const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What an agent's state folder says about one lease.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StolenLease {
    pub(super) job_id: JobId,
    pub(super) attempt_id: AttemptId,
    pub(super) lease_epoch: i64,
    pub(super) commit_token: CommitToken,
    pub(super) object_key: String,
}

impl StolenLease {
    /// Reads a lease file of an agent.
    pub(super) fn read(file: &Path) -> Result<Self, DemoError> {
        let bytes = std::fs::read(file)?;
        serde_json::from_slice(&bytes)
            .map_err(|_| DemoError::stuck(format!("{} is no lease file", file.display())))
    }

    fn lease(&self) -> LeaseRef {
        LeaseRef {
            job_id: self.job_id,
            attempt_id: self.attempt_id,
            lease_epoch: self.lease_epoch,
        }
    }
}

/// The part of `device.json` that opens a session. It has no `Debug`: the token must not be seen.
#[derive(Deserialize)]
struct Credential {
    gateway: String,
    device_token: String,
}

/// How a frame was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) disposition: Disposition,
}

/// An open session of somebody else's device.
pub(super) struct Impostor {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Impostor {
    /// Connects as the device of this state folder and says that it holds nothing.
    pub(super) async fn connect(state_dir: &Path) -> Result<Self, DemoError> {
        let bytes = std::fs::read(state_dir.join("device.json"))?;
        let credential: Credential = serde_json::from_slice(&bytes)
            .map_err(|_| DemoError::stuck("the agent's device.json cannot be read"))?;
        let base = credential.gateway.trim_end_matches('/');
        let url = format!("{}/v1/provider/ws", base.replacen("http", "ws", 1));
        let mut request = url.into_client_request().map_err(no_socket)?;
        let bearer = HeaderValue::from_str(&format!("Bearer {}", credential.device_token));
        let mut bearer = bearer.map_err(|_| DemoError::stuck("the device token is odd"))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let (socket, _) = connect_async(request).await.map_err(no_socket)?;
        let mut impostor = Self { socket };
        impostor.greet().await?;
        Ok(impostor)
    }

    /// Asks for a new link to upload to.
    pub(super) async fn ask_for_upload(
        &mut self,
        stolen: &StolenLease,
    ) -> Result<Refusal, DemoError> {
        self.expect_refusal(AgentFrame::Grant {
            lease: stolen.lease(),
            name: "output".to_owned(),
            direction: "put".to_owned(),
            first_part: None,
        })
        .await
    }

    /// Says that the work is done and what was uploaded.
    pub(super) async fn commit(
        &mut self,
        stolen: &StolenLease,
        output: OutputDeclaration,
    ) -> Result<Refusal, DemoError> {
        self.expect_refusal(AgentFrame::Commit {
            lease: stolen.lease(),
            commit_token: stolen.commit_token.clone(),
            output,
        })
        .await
    }

    /// Leaves without being missed.
    pub(super) async fn leave(mut self) {
        // Whoever is gone cannot be told.
        let _ = tokio::time::timeout(ANSWER_TIME, self.socket.close(None)).await;
    }

    async fn greet(&mut self) -> Result<(), DemoError> {
        let hello = AgentFrame::Hello(Hello {
            protocol: PROTOCOL,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            instance_id: InstanceId::new(),
            slots: 1,
            capabilities: Vec::new(),
            held: Vec::new(),
        });
        match self.ask(hello).await? {
            GatewayFrame::Welcome { .. } => Ok(()),
            other => Err(DemoError::stuck(format!(
                "the gateway answered hello with {other:?}"
            ))),
        }
    }

    async fn expect_refusal(&mut self, frame: AgentFrame) -> Result<Refusal, DemoError> {
        match self.ask(frame).await? {
            GatewayFrame::Rejected {
                code, disposition, ..
            } => Ok(Refusal { code, disposition }),
            other => Err(DemoError::untrue(format!(
                "a lost lease was not refused; the answer was {other:?}"
            ))),
        }
    }

    /// Sends one frame and returns its answer, whatever else comes in between.
    async fn ask(&mut self, frame: AgentFrame) -> Result<GatewayFrame, DemoError> {
        let request_id = RequestId::new();
        let text = serde_json::to_string(&AgentEnvelope { request_id, frame })
            .map_err(|error| DemoError::stuck(format!("a frame cannot be written: {error}")))?;
        let exchange = async {
            self.socket
                .send(Message::text(text))
                .await
                .map_err(no_socket)?;
            while let Some(message) = self.socket.next().await {
                let Message::Text(text) = message.map_err(no_socket)? else {
                    continue;
                };
                let answer: GatewayEnvelope = serde_json::from_str(&text)
                    .map_err(|error| DemoError::stuck(format!("an odd answer: {error}")))?;
                if answer.request_id == Some(request_id) {
                    return Ok(answer.frame);
                }
            }
            Err(DemoError::stuck(
                "the gateway closed the socket without an answer",
            ))
        };
        tokio::time::timeout(ANSWER_TIME, exchange)
            .await
            .unwrap_or_else(|_| Err(DemoError::stuck("the gateway did not answer in 10 s")))
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
fn no_socket(error: tokio_tungstenite::tungstenite::Error) -> DemoError {
    DemoError::stuck(format!("the impostor's socket: {error}"))
}
