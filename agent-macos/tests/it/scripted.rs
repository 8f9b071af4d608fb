//! An HTTP server that says exactly what a test wants, byte by byte.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_agent::address::Gateway as Address;
use fencepost_agent::clock;
use fencepost_agent::core::{FreshLink, LinkAnswer};
use fencepost_agent::http;
use fencepost_agent::transfer::link::{LinkDesk, LinkWish};
use fencepost_agent::transfer::{LeaseWatch, Network};
use fencepost_domain::ids::AttemptId;
use fencepost_egress::AllowList;
use fencepost_media::StopSignal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What one connection does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Reads the request's head, says these bytes and closes.
    Say(Vec<u8>),
    /// Reads the whole request, says these bytes and closes.
    Answer(&'static str),
    /// Reads this many bytes and cuts the line.
    CutAfter(usize),
    /// Reads everything and says nothing.
    Hang,
    /// Reads the request's head, says these bytes, and then a byte now and then, for ever.
    Drip(&'static str),
}

/// The server; the n-th connection does the n-th act, later ones the last.
pub(crate) struct Scripted {
    pub(crate) address: Address,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl Scripted {
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let list = Arc::clone(&heads);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let act = acts[number.min(acts.len() - 1)].clone();
                let list = Arc::clone(&list);
                // A client that hangs up is what some tests are about.
                open.spawn(async move { drop(play(stream, act, &list).await) });
            }
        });
        Self {
            address: Address::parse(&url).unwrap(),
            connections,
            heads,
            _task: task,
        }
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The heads of the requests that were read, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// A client with little patience.
    pub(crate) fn network(&self) -> Network {
        network(&self.address)
    }
}

pub(crate) fn network(address: &Address) -> Network {
    network_with(address, &[])
}

/// The same for an agent that may fetch from these networks too.
pub(crate) fn network_with(address: &Address, allowed: &[&str]) -> Network {
    let allowed = AllowList::parse(allowed.iter().copied()).unwrap();
    let client = http::client(address).unwrap();
    let mut network = Network::new(address, client, allowed).unwrap();
    network.idle = Duration::from_millis(400);
    network.away = Duration::ZERO;
    network.pace = Duration::from_secs(1);
    network
}

async fn play(mut stream: TcpStream, act: Act, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    match act {
        Act::Say(bytes) => {
            head(&mut stream, heads).await?;
            stream.write_all(&bytes).await?;
        }
        Act::Answer(answer) => {
            let length = head(&mut stream, heads).await?;
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            stream.write_all(answer.as_bytes()).await?;
        }
        Act::CutAfter(count) => {
            let mut buffer = vec![0; count];
            stream.read_exact(&mut buffer).await?;
        }
        Act::Hang => {
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        }
        Act::Drip(answer) => {
            head(&mut stream, heads).await?;
            stream.write_all(answer.as_bytes()).await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    stream.shutdown().await
}

/// Reads a head; gives the length of the body that follows.
async fn head(stream: &mut TcpStream, heads: &Mutex<Vec<String>>) -> std::io::Result<usize> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    heads.lock().unwrap().push(head.clone());
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    Ok(length.map_or(0, |length| length.trim().parse().unwrap()))
}

/// A desk where every wish gets the same answer.
pub(crate) fn desk(answer: LinkAnswer) -> (LinkDesk, JoinSet<()>) {
    let (wishes, mut wished) = mpsc::channel::<LinkWish>(4);
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Some(wish) = wished.recv().await {
            wish.answer.send(answer.clone()).unwrap();
        }
    });
    (LinkDesk::new(AttemptId::new(), wishes), task)
}

pub(crate) fn fresh(url: &str) -> LinkAnswer {
    LinkAnswer::Fresh(FreshLink {
        url: url.to_owned(),
        object_key: "fresh-key".to_owned(),
        parts: None,
    })
}

/// A lease of this length, and what keeps or stops it.
pub(crate) fn lease(length: Duration) -> (LeaseWatch, StopSignal, watch::Sender<clock::Moment>) {
    let (sender, deadline) = watch::channel(clock::now().after(length));
    let stop = StopSignal::new();
    let watch = LeaseWatch {
        stop: stop.clone(),
        deadline,
    };
    (watch, stop, sender)
}
