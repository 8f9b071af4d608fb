//! The listening side: a little HTTP for pairing and links, and WebSocket sessions for the test.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_domain::ids::{DeviceId, ProviderId};
use fencepost_media::fixture::Clip;
use fencepost_media::{Overrides, Tools};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::session::Session;

pub(crate) const CODE: &str = "fp_pair_integration";
pub(crate) const DEVICE_TOKEN: &str = "fp_device_integration";
/// A link that leads to another host.
const MOVED: &str = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.2:9/in\r\n\
                     content-length: 0\r\nconnection: close\r\n\r\n";
const PATIENCE: Duration = Duration::from_mins(1);

/// A gateway for one test.
pub(crate) struct Gateway {
    pub(crate) address: String,
    pub(crate) objects: Objects,
    sessions: mpsc::Receiver<Session>,
    _tasks: JoinSet<()>,
}

/// What is behind the links.
#[derive(Clone, Default)]
pub(crate) struct Objects(
    Arc<Mutex<HashMap<String, Vec<u8>>>>,
    Arc<Mutex<HashMap<String, Trouble>>>,
);

/// What a link does instead of working.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// Answers with this status at once.
    Status(u16),
    /// Promises a mebibyte and sends a byte now and then.
    Drip,
    /// Reads a little of what is sent, and then nothing for ever.
    StopsReading,
}

impl Objects {
    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        self.0.lock().unwrap().insert(path.to_owned(), bytes);
    }

    /// From now on this path makes trouble.
    pub(crate) fn trouble(&self, path: &str, trouble: Trouble) {
        self.1.lock().unwrap().insert(path.to_owned(), trouble);
    }

    fn trouble_at(&self, path: &str) -> Option<Trouble> {
        self.1.lock().unwrap().get(path).copied()
    }

    pub(crate) fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(path).cloned()
    }
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let objects = Objects::default();
        let (sender, sessions) = mpsc::channel(8);
        let mut tasks = JoinSet::new();
        let shared = objects.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, shared.clone(), sender.clone()));
            }
        });
        Self {
            address,
            objects,
            sessions,
            _tasks: tasks,
        }
    }

    /// The next session that the agent opens.
    pub(crate) async fn session(&mut self) -> Session {
        let session = tokio::time::timeout(PATIENCE, self.sessions.recv()).await;
        session.expect("the agent did not connect").unwrap()
    }

    /// Puts a clip behind a link; gives its digest and size.
    pub(crate) async fn put_clip(&self, path: &str, seconds: u32) -> (String, u64) {
        let bytes = clip(seconds).await;
        let described = (sha256(&bytes), bytes.len() as u64);
        self.objects.put(path, bytes);
        described
    }
}

/// The bytes of a clip, made once for all tests.
async fn clip(seconds: u32) -> Vec<u8> {
    static CLIPS: tokio::sync::Mutex<BTreeMap<u32, Vec<u8>>> =
        tokio::sync::Mutex::const_new(BTreeMap::new());
    let mut clips = CLIPS.lock().await;
    if let Some(bytes) = clips.get(&seconds) {
        return bytes.clone();
    }
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("clip.mp4");
    let tools = Tools::find(&Overrides::default()).await.unwrap();
    Clip::base(seconds).write(&tools, &file).await.unwrap();
    let bytes = std::fs::read(Path::new(&file)).unwrap();
    clips.insert(seconds, bytes.clone());
    bytes
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

async fn serve(stream: TcpStream, objects: Objects, sessions: mpsc::Sender<Session>) {
    let mut start = [0; 32];
    let count = stream.peek(&mut start).await.unwrap_or(0);
    if start[..count].starts_with(b"GET /v1/provider/ws ") {
        open_session(stream, &sessions).await;
    } else {
        // A client that hangs up halfway is what some tests are about.
        let _ = answer_http(stream, &objects).await;
    }
}

#[expect(clippy::result_large_err, reason = "the signature is the library's")]
async fn open_session(stream: TcpStream, sessions: &mpsc::Sender<Session>) {
    let authorized = |request: &Request, response: Response| {
        let bearer = request
            .headers()
            .get("authorization")
            .unwrap()
            .to_str()
            .unwrap();
        assert_eq!(bearer, format!("Bearer {DEVICE_TOKEN}"));
        Ok(response)
    };
    if let Ok(socket) = accept_hdr_async(stream, authorized).await {
        let _ = sessions.send(Session::new(socket)).await;
    }
}

/// One request per connection; only a body that arrived whole counts.
async fn answer_http(mut stream: TcpStream, objects: &Objects) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(
        !head.contains("authorization"),
        "the device token went into a transfer"
    );
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    if let Some(trouble) = objects.trouble_at(path) {
        return make_trouble(stream, trouble).await;
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let (status, answer) = match (method, path) {
        ("post", "/v1/provider/pair") => pair(&body),
        ("get", "/moved") => {
            return stream.write_all(MOVED.as_bytes()).await;
        }
        ("get", path) => match objects.get(path) {
            Some(bytes) => ("200 OK", bytes),
            None => ("404 Not Found", Vec::new()),
        },
        ("put", path) => {
            objects.put(path, body);
            ("201 Created", Vec::new())
        }
        _ => ("405 Method Not Allowed", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&answer).await
}

async fn make_trouble(mut stream: TcpStream, trouble: Trouble) -> std::io::Result<()> {
    match trouble {
        Trouble::Status(status) => {
            let head =
                format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            // Whatever is sent still is read, or the answer may be lost with it.
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        }
        Trouble::Drip => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n\r\n";
            stream.write_all(head).await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
        Trouble::StopsReading => std::future::pending().await,
    }
    Ok(())
}

fn pair(body: &[u8]) -> (&'static str, Vec<u8>) {
    let request: serde_json::Value = serde_json::from_slice(body).unwrap();
    let answer = if request["code"] == CODE {
        serde_json::json!({
            "device_id": DeviceId::new(),
            "provider_id": ProviderId::new(),
            "device_token": DEVICE_TOKEN,
        })
    } else {
        serde_json::json!({
            "type": "about:blank",
            "title": "Gone",
            "status": 410,
            "detail": "the code was used already",
        })
    };
    let status = if request["code"] == CODE {
        "200 OK"
    } else {
        "410 Gone"
    };
    (status, serde_json::to_vec(&answer).unwrap())
}
