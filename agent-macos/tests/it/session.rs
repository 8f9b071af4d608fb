//! One session, from the gateway's side.

use std::time::Duration;

use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::ids::{AttemptId, JobId, SessionNumber};
use fencepost_protocol::{
    AgentEnvelope, AgentFrame, Directive, GatewayEnvelope, GatewayFrame, Hello, InputGrant,
    Intervals, LeaseOffer, LeaseRef, Limits, Lost, OutputGrant, PROTOCOL, Recorded, Resumed,
};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

const PATIENCE: Duration = Duration::from_mins(1);

/// Short, so that tests are.
pub(crate) const INTERVALS: Intervals = Intervals {
    lease_ttl_ms: 4_000,
    renew_ms: 500,
    answer_ms: 1_500,
    heartbeat_ms: 1_000,
    dead_ms: 6_000,
    reconnect_max_ms: 500,
};

/// A socket, and how progress is answered while the test waits for something else.
pub(crate) struct Session {
    socket: WebSocketStream<TcpStream>,
    pub(crate) directive: Directive,
    /// What the welcome says, and what every confirmation gives.
    pub(crate) intervals: Intervals,
}

impl Session {
    pub(crate) fn new(socket: WebSocketStream<TcpStream>) -> Self {
        Self {
            socket,
            directive: Directive::Continue,
            intervals: INTERVALS,
        }
    }

    pub(crate) async fn send(
        &mut self,
        to: Option<&AgentEnvelope>,
        lease: Option<LeaseRef>,
        frame: GatewayFrame,
    ) {
        let request_id = to.map(|said| said.request_id);
        let envelope = GatewayEnvelope {
            request_id,
            frame,
            lease,
        };
        let text = serde_json::to_string(&envelope).unwrap();
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// Answers a frame, echoing what answers echo.
    pub(crate) async fn answer(&mut self, said: &AgentEnvelope, frame: GatewayFrame) {
        self.send(Some(said), said.frame.lease(), frame).await;
    }

    /// The next frame; nothing if the socket has ended. What is beside the work itself (journal
    /// entries, and what failed runs left) is answered and not given.
    pub(crate) async fn hear(&mut self) -> Option<AgentEnvelope> {
        loop {
            let said = self.hear_any().await?;
            let answer = match &said.frame {
                AgentFrame::Event { .. } => GatewayFrame::EventOk {
                    replayed: false,
                    lease_live: true,
                },
                AgentFrame::Retain { .. } | AgentFrame::Reaped { .. } => GatewayFrame::Done {
                    replayed: false,
                    lease_remaining_ms: None,
                },
                _ => return Some(said),
            };
            self.answer(&said, answer).await;
        }
    }

    /// The next frame, whatever it is; nothing if the socket has ended.
    pub(crate) async fn hear_any(&mut self) -> Option<AgentEnvelope> {
        loop {
            let heard = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match heard.expect("the agent says nothing")? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Waits for the frame of this type. Progress is answered meanwhile; nothing else is.
    pub(crate) async fn until(&mut self, kind: &str) -> AgentEnvelope {
        self.until_true(|said| word(said) == kind).await
    }

    pub(crate) async fn until_true(
        &mut self,
        wanted: impl Fn(&AgentEnvelope) -> bool,
    ) -> AgentEnvelope {
        loop {
            let said = self.hear().await.expect("the agent hung up");
            let is_wanted = wanted(&said);
            if matches!(said.frame, AgentFrame::Progress { .. }) {
                self.answer_progress(&said).await;
            }
            if is_wanted {
                return said;
            }
        }
    }

    pub(crate) async fn answer_progress(&mut self, said: &AgentEnvelope) {
        let frame = GatewayFrame::ProgressOk {
            lease_expires_at: time::OffsetDateTime::UNIX_EPOCH,
            lease_remaining_ms: self.intervals.lease_ttl_ms,
            directive: self.directive,
            reason: None,
        };
        self.answer(said, frame).await;
    }

    /// Hears hello and welcomes it with this.
    pub(crate) async fn welcome(
        &mut self,
        answer: impl Fn(&Hello) -> (Vec<Resumed>, Vec<Recorded>, Vec<Lost>),
    ) -> Hello {
        let said = self.until("hello").await;
        let AgentFrame::Hello(hello) = said.frame.clone() else {
            unreachable!()
        };
        let (resumed, recorded, lost) = answer(&hello);
        let frame = GatewayFrame::Welcome {
            session_id: SessionNumber(1),
            protocol: PROTOCOL,
            intervals: self.intervals,
            resumed,
            recorded,
            lost,
        };
        self.answer(&said, frame).await;
        hello
    }

    pub(crate) async fn welcome_empty(&mut self) -> Hello {
        self.welcome(|_| (Vec::new(), Vec::new(), Vec::new())).await
    }

    /// Waits for a pull, offers, and confirms the accept.
    pub(crate) async fn lease(&mut self, offer: LeaseOffer) {
        self.until("pull").await;
        self.send(None, None, GatewayFrame::LeaseOffer(Box::new(offer)))
            .await;
        let accept = self.until("offer_accept").await;
        let lease_remaining_ms = Some(self.intervals.lease_ttl_ms);
        self.answer(
            &accept,
            GatewayFrame::Done {
                replayed: false,
                lease_remaining_ms,
            },
        )
        .await;
    }

    /// Waits until the encoder reports progress.
    pub(crate) async fn until_encoding(&mut self) {
        self.until_true(|said| {
            let frame = serde_json::to_value(&said.frame).unwrap();
            frame["phase"] == "running" && frame["percent"].as_f64().is_some_and(|p| p >= 1.0)
        })
        .await;
    }

    pub(crate) async fn close(mut self, code: u16) {
        let frame = CloseFrame {
            code: code.into(),
            reason: "because".into(),
        };
        self.socket.send(Message::Close(Some(frame))).await.unwrap();
        while self.hear().await.is_some() {}
    }
}

/// The type of a frame.
pub(crate) fn word(said: &AgentEnvelope) -> String {
    content(said)["type"].as_str().unwrap().to_owned()
}

/// A frame without its request id: what "identical" compares.
pub(crate) fn content(said: &AgentEnvelope) -> Value {
    serde_json::to_value(&said.frame).unwrap()
}

pub(crate) fn token(fill: u8) -> CommitToken {
    CommitToken::from_entropy([fill; TOKEN_BYTES])
}

/// An offer to transcode what is behind `/in` into `/out`.
pub(crate) fn offer(source: (String, u64), params: Value) -> LeaseOffer {
    let (sha256, size_bytes) = source;
    let url = "/in".to_owned();
    LeaseOffer {
        job_id: JobId::new(),
        attempt_id: AttemptId::new(),
        attempt_number: 1,
        lease_epoch: 1,
        commit_token: token(7),
        lease_expires_at: time::OffsetDateTime::UNIX_EPOCH,
        lease_remaining_ms: 10_000,
        service: "transcode.v1".to_owned(),
        params,
        inputs: vec![InputGrant {
            name: "source".to_owned(),
            url,
            sha256: Some(sha256),
            size_bytes: Some(size_bytes),
            max_bytes: None,
        }],
        output: OutputGrant {
            parts_above: None,
            url: "/out".to_owned(),
            object_key: "outputs/j/a/output.mp4".to_owned(),
            max_bytes: 1 << 30,
        },
        limits: Limits {
            max_output_seconds: 600,
            max_run_seconds: 600,
        },
        traceparent: None,
    }
}

/// Quick to encode.
pub(crate) fn small() -> Value {
    json!({"codec": "h264", "height": 90, "hardware": "never"})
}

/// Busy for minutes.
pub(crate) fn huge() -> Value {
    json!({"codec": "hevc", "height": 2160, "crf": 18, "hardware": "never"})
}
