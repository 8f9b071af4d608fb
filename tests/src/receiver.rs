//! A buyer's own server, which does with webhooks what a test wants.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::wait::until_some;

/// What one request is answered with.
#[derive(Debug, Clone)]
pub enum Act {
    /// This status.
    Status(u16),
    /// This status and these header lines (`name: value`), and a body.
    Say(u16, Vec<String>, String),
    /// Nothing, for ever.
    Hang,
    /// A byte of the head each second.
    Drip,
    /// A body without an end.
    EndlessBody,
    /// A head without an end.
    EndlessHead,
}

/// One webhook that came.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body as it was sent.
    pub body: Vec<u8>,
    /// When.
    pub at: std::time::Instant,
}

impl Heard {
    /// One of its headers.
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("a text")
    }

    /// Its body as JSON, as it is described.
    pub fn json(&self) -> Value {
        let body = serde_json::from_slice(&self.body).expect("JSON");
        crate::buyer::times_have_one_form(&self.body);
        crate::described::check_webhook(&body);
        body
    }

    /// Whether the published library takes it for genuine.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let webhook = standardwebhooks::Webhook::new(secret).expect("a secret is readable");
        webhook.verify(&self.body, &self.headers).is_ok()
    }
}

/// The server; the n-th request is answered by the n-th act, later ones by the last.
pub struct Receiver {
    /// Where it listens.
    pub url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    acts: Arc<Mutex<Vec<Act>>>,
    _task: JoinSet<()>,
}

impl Receiver {
    /// A server that acts like this.
    pub async fn start(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let acts = Arc::new(Mutex::new(acts.to_vec()));
        let (list, script) = (Arc::clone(&heard), Arc::clone(&acts));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                let (list, script) = (Arc::clone(&list), Arc::clone(&script));
                // A client that hangs up is what some tests are about.
                open.spawn(async move { drop(serve(stream, &list, &script).await) });
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/hook?key=receivers-own-word"),
            heard,
            acts,
            _task: task,
        }
    }

    /// One that takes everything.
    pub async fn good() -> Self {
        Self::start(&[Act::Status(204)]).await
    }

    /// What it has heard so far.
    pub fn heard(&self) -> Vec<Heard> {
        lock(&self.heard).clone()
    }

    /// Waits until it has heard so many.
    pub async fn until_heard(&self, count: usize) -> Vec<Heard> {
        until_some(&format!("{count} webhooks"), || async {
            Some(self.heard()).filter(|heard| heard.len() >= count)
        })
        .await
    }

    /// From now on every request is answered so.
    pub fn acts(&self, act: Act) {
        *lock(&self.acts) = vec![act];
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    mut stream: TcpStream,
    heard: &Mutex<Vec<Heard>>,
    acts: &Mutex<Vec<Act>>,
) -> std::io::Result<()> {
    let (headers, length) = read_head(&mut stream).await?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let number = {
        let mut heard = lock(heard);
        let at = std::time::Instant::now();
        heard.push(Heard { headers, body, at });
        heard.len() - 1
    };
    let act = {
        let acts = lock(acts);
        acts[number.min(acts.len() - 1)].clone()
    };
    play(&mut stream, act).await?;
    stream.shutdown().await
}

async fn play(stream: &mut TcpStream, act: Act) -> std::io::Result<()> {
    match act {
        Act::Status(status) => {
            let head = format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await
        }
        Act::Say(status, lines, body) => {
            let length = format!("content-length: {}", body.len());
            let lines = [lines, vec![length]].concat().join("\r\n");
            let head = format!("HTTP/1.1 {status} So\r\n{lines}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await
        }
        Act::Hang => std::future::pending().await,
        Act::Drip => {
            for byte in b"HTTP/1.1 200 OK\r\n"
                .iter()
                .chain(std::iter::repeat(&b'x'))
            {
                stream.write_all(&[*byte]).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        Act::EndlessBody => {
            stream.write_all(b"HTTP/1.1 500 Oh\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 4096]).await?;
            }
        }
        Act::EndlessHead => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                stream.write_all(b"x-more: and more\r\n").await?;
            }
        }
    }
}

/// Reads a head; gives the headers and the length of the body that follows.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<(HeaderMap, usize)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut headers = HeaderMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        let name = reqwest::header::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value.parse()) {
            headers.insert(name, value);
        }
    }
    let length = headers.get("content-length");
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    Ok((headers, length.unwrap_or(0)))
}
