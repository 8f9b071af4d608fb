//! A protocol client that poses as an agent, and does only what the test says: hold, replay,
//! reorder, drop, stop reading, present what is stale.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{DeviceId, InstanceId, RequestId};
use fencepost_domain::service::Capability;
use fencepost_protocol::{
    AgentEnvelope, AgentFrame, GatewayEnvelope, GatewayFrame, HeldLease, Hello, LeaseOffer,
    OutputDeclaration, PROTOCOL, Resumed,
};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::agent_frames::{accept, declared, grant, progress};
use crate::buyer::{answer, text};
use crate::gateway::TestGateway;
use crate::wait::PATIENCE;

const HEARTBEAT: Duration = Duration::from_millis(800);

type Socket = WebSocketStream<TcpStream>;

/// A paired device.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// Its secret.
    pub token: String,
    /// How many attempts it says that it takes.
    pub slots: u32,
    /// What it says that it can do.
    pub words: Vec<String>,
    /// Its process.
    pub instance: InstanceId,
}

impl Device {
    /// Pairs over HTTP with a one-use code.
    pub async fn pair(gateway: &TestGateway, code: &str, name: &str) -> Self {
        let (status, paired) = Self::try_pair(gateway, code, name).await;
        assert_eq!(status, StatusCode::CREATED, "{paired}");
        Self {
            id: text(&paired["device_id"]).parse().expect("an id"),
            token: text(&paired["device_token"]),
            slots: 4,
            words: ["transcode.v1", "encode.h264", "noop.v1"]
                .map(str::to_owned)
                .into(),
            instance: InstanceId::new(),
        }
    }

    /// The answer to an attempt to pair.
    pub async fn try_pair(gateway: &TestGateway, code: &str, name: &str) -> (StatusCode, Value) {
        let body = json!({ "code": code, "device_name": name, "agent_version": "1.0.0" });
        let request = gateway.client.post(gateway.address("/v1/provider/pair"));
        answer(
            request
                .json(&body)
                .send()
                .await
                .expect("the gateway answers"),
        )
        .await
    }

    /// The same device with another number of slots.
    pub fn with_slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Opens a socket and says nothing.
    pub async fn dial(&self, gateway: &TestGateway) -> Session {
        self.dial_port(gateway.port()).await
    }

    /// The same through whatever listens on a port of this machine.
    pub async fn dial_port(&self, port: u16) -> Session {
        let socket = self.try_dial(port).await.expect("the gateway lets us in");
        Session::start(self.clone(), socket)
    }

    /// Opens a socket, or says why not.
    pub async fn try_dial(&self, port: u16) -> Result<Socket, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let mut request = format!("ws://127.0.0.1:{port}/v1/provider/ws").into_client_request()?;
        let bearer = format!("Bearer {}", self.token)
            .parse()
            .expect("plain text");
        request.headers_mut().insert("authorization", bearer);
        Ok(client_async(request, stream).await?.0)
    }

    /// A session that said hello holding nothing, and was welcomed.
    pub async fn connect(&self, gateway: &TestGateway) -> Session {
        let mut session = self.dial(gateway).await;
        session.hello(&[]).await;
        session
    }
}

/// What became of what a hello listed.
#[derive(Debug)]
pub struct Welcome {
    /// Leases that go on.
    pub resumed: Vec<Resumed>,
    /// Attempts whose last word is stored, with their status.
    pub recorded: Vec<(String, String)>,
    /// Leases that are gone.
    pub lost: Vec<String>,
}

/// One socket of a device. It says heartbeats by itself; it reads only while a test waits.
pub struct Session {
    /// Whose it is.
    pub device: Device,
    sink: Arc<Mutex<SplitSink<Socket, Message>>>,
    stream: SplitStream<Socket>,
    heart: JoinSet<()>,
    unread: VecDeque<GatewayEnvelope>,
}

impl Session {
    fn start(device: Device, socket: Socket) -> Self {
        let (sink, stream) = socket.split();
        let sink = Arc::new(Mutex::new(sink));
        let beating = Arc::clone(&sink);
        let mut heart = JoinSet::new();
        heart.spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                let beat = written(&envelope(AgentFrame::Heartbeat));
                if beating
                    .lock()
                    .await
                    .send(Message::text(beat))
                    .await
                    .is_err()
                {
                    return;
                }
            }
        });
        Self {
            device,
            sink,
            stream,
            heart,
            unread: VecDeque::new(),
        }
    }

    /// Says no more heartbeats.
    pub fn fall_silent(&mut self) {
        self.heart.abort_all();
    }

    /// Cuts the connection without a word.
    pub async fn cut(mut self) {
        // Its half of the socket goes with the task.
        self.heart.shutdown().await;
    }

    /// Says a frame.
    pub async fn say(&self, frame: AgentFrame) -> RequestId {
        let envelope = envelope(frame);
        self.say_text(written(&envelope)).await;
        envelope.request_id
    }

    /// Says a text, whatever it is.
    pub async fn say_text(&self, text: String) {
        self.say_message(Message::text(text)).await;
    }

    /// Says a text over and over until the socket takes no more: it is closed, or the gateway
    /// has stopped reading for a while.
    pub async fn flood(&self, text: &str) {
        let quiet = Duration::from_secs(1);
        loop {
            let mut sink = self.sink.lock().await;
            let sending = sink.send(Message::text(text.to_owned()));
            if !matches!(tokio::time::timeout(quiet, sending).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Writes a message, or a piece of one.
    pub async fn say_message(&self, message: Message) {
        let sent = self.sink.lock().await.send(message).await;
        sent.expect("the socket is open");
    }

    /// The next frame but heartbeats; the close code if the socket ends instead.
    pub async fn try_hear(&mut self) -> Result<GatewayEnvelope, Option<u16>> {
        if let Some(envelope) = self.unread.pop_front() {
            return Ok(envelope);
        }
        self.read().await
    }

    async fn read(&mut self) -> Result<GatewayEnvelope, Option<u16>> {
        // Heartbeats come for ever; what is waited for must not.
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let heard = tokio::time::timeout_at(deadline, self.stream.next()).await;
            match heard.expect("the gateway says nothing") {
                Some(Ok(Message::Text(text))) => {
                    let envelope: GatewayEnvelope =
                        serde_json::from_str(&text).expect("a frame of ours");
                    if !matches!(envelope.frame, GatewayFrame::Heartbeat) {
                        return Ok(envelope);
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    return Err(frame.map(|frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The next frame but heartbeats.
    pub async fn hear(&mut self) -> GatewayEnvelope {
        let heard = self.try_hear().await;
        heard.unwrap_or_else(|code| panic!("the socket was closed with {code:?}"))
    }

    /// The next frame that is wanted; others are kept for later, in order.
    pub async fn until(&mut self, wanted: impl Fn(&GatewayEnvelope) -> bool) -> GatewayEnvelope {
        if let Some(at) = self.unread.iter().position(&wanted) {
            return self.unread.remove(at).expect("it was just found");
        }
        loop {
            let heard = self.read().await;
            let heard = heard.unwrap_or_else(|code| panic!("the socket was closed with {code:?}"));
            if wanted(&heard) {
                return heard;
            }
            self.unread.push_back(heard);
        }
    }

    /// Reads until the socket ends, and gives its close code; `None` without one.
    pub async fn close_code(&mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.try_hear().await {
                return code;
            }
        }
    }

    /// The answer to a request.
    pub async fn answer(&mut self, request: RequestId) -> GatewayEnvelope {
        self.until(|heard| heard.request_id == Some(request)).await
    }

    /// Says a frame and waits for its answer.
    pub async fn ask(&mut self, frame: AgentFrame) -> GatewayFrame {
        let request = self.say(frame).await;
        self.answer(request).await.frame
    }

    /// The frame of a hello that lists these leases.
    pub fn hello_frame(&self, held: &[&LeaseOffer]) -> AgentFrame {
        AgentFrame::Hello(Hello {
            protocol: PROTOCOL,
            agent_version: "1.0.0".to_owned(),
            instance_id: self.device.instance,
            slots: self.device.slots,
            capabilities: self.device.words.iter().map(Capability::new).collect(),
            held: held
                .iter()
                .map(|offer| HeldLease {
                    lease: offer.lease(),
                    commit_token: offer.commit_token.clone(),
                })
                .collect(),
        })
    }

    /// Says hello, and is welcomed.
    pub async fn hello(&mut self, held: &[&LeaseOffer]) -> Welcome {
        match self.ask(self.hello_frame(held)).await {
            GatewayFrame::Welcome {
                resumed,
                recorded,
                lost,
                ..
            } => Welcome {
                resumed,
                recorded: recorded
                    .into_iter()
                    .map(|one| (one.attempt_id.to_string(), one.status))
                    .collect(),
                lost: lost
                    .into_iter()
                    .map(|one| one.attempt_id.to_string())
                    .collect(),
            },
            other => panic!("no welcome: {other:?}"),
        }
    }

    /// Asks for work.
    pub async fn pull(&self, slots_free: u32) {
        self.say(AgentFrame::Pull { slots_free }).await;
    }

    /// The next offer.
    pub async fn offer(&mut self) -> LeaseOffer {
        let heard = self
            .until(|heard| matches!(heard.frame, GatewayFrame::LeaseOffer(_)))
            .await;
        match heard.frame {
            GatewayFrame::LeaseOffer(offer) => *offer,
            other => panic!("no offer: {other:?}"),
        }
    }

    /// Asks for work and is told that there is none.
    pub async fn finds_no_work(&mut self) {
        self.pull(1).await;
        let heard = self.hear().await;
        assert!(matches!(heard.frame, GatewayFrame::NoWork), "{heard:?}");
    }

    /// Pulls one offer, which must come.
    pub async fn pull_offer(&mut self) -> LeaseOffer {
        self.pull(1).await;
        self.offer().await
    }

    /// Pulls and accepts.
    pub async fn lease(&mut self) -> LeaseOffer {
        let offer = self.pull_offer().await;
        let accepted = self.ask(accept(&offer)).await;
        assert!(
            matches!(accepted, GatewayFrame::Done { .. }),
            "{accepted:?}"
        );
        offer
    }

    /// Pulls, accepts, and goes into a phase.
    pub async fn lease_in(&mut self, phase: Phase) -> LeaseOffer {
        let offer = self.lease().await;
        let answer = self.ask(progress(&offer, phase)).await;
        assert!(
            matches!(answer, GatewayFrame::ProgressOk { .. }),
            "{answer:?}"
        );
        offer
    }

    /// Pulls, accepts, uploads these bytes; gives the lease and what to declare.
    pub async fn lease_and_upload(
        &mut self,
        gateway: &TestGateway,
        bytes: &[u8],
    ) -> (LeaseOffer, OutputDeclaration) {
        let offer = self.lease_in(Phase::Uploading).await;
        let stored = gateway.put(&offer.output.url, bytes).await;
        assert!(stored.status().is_success(), "{stored:?}");
        let output = declared(&offer, bytes);
        (offer, output)
    }

    /// Gets an object for an artifact and puts these bytes into it; gives its key.
    pub async fn put_artifact(
        &mut self,
        gateway: &TestGateway,
        offer: &LeaseOffer,
        (name, bytes): (&str, &[u8]),
    ) -> String {
        let answer = self.ask(grant(offer, name, "put")).await;
        let GatewayFrame::Granted {
            url, object_key, ..
        } = answer
        else {
            panic!("no grant: {answer:?}");
        };
        let put = gateway.put(&url, bytes).await;
        assert_eq!(put.status(), StatusCode::CREATED);
        object_key
    }
}

fn envelope(frame: AgentFrame) -> AgentEnvelope {
    AgentEnvelope {
        request_id: RequestId::new(),
        frame,
    }
}

fn written(envelope: &AgentEnvelope) -> String {
    serde_json::to_string(envelope).expect("a frame can be written")
}
