//! A host with many files, of which a test says what becomes of each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What is done with one request.
#[derive(Debug, Clone)]
pub(crate) enum Play {
    /// These bytes are said, after a while.
    Say(Duration, Vec<u8>),
    /// Nothing ever comes, but the line stays open.
    Silence,
}

/// What is said with a body.
pub(crate) fn said(head: &str, body: &[u8]) -> Play {
    let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
    Play::Say(Duration::ZERO, [head.as_bytes(), body].concat())
}

/// A whole file.
pub(crate) fn whole(body: &[u8]) -> Play {
    said(&format!("200 OK\r\ncontent-length: {}", body.len()), body)
}

/// What happens on the host.
#[derive(Default)]
struct Book {
    plays: HashMap<String, Vec<Play>>,
    /// The heads of the requests, in lower case but for the first line.
    heads: Vec<String>,
    asked: HashMap<String, usize>,
    unanswered: usize,
    most_unanswered: usize,
}

/// A request that waits for its answer, until this is dropped.
struct Unanswered<'a>(&'a Mutex<Book>);

impl<'a> Unanswered<'a> {
    fn new(book: &'a Mutex<Book>) -> Self {
        let mut noted = book.lock().unwrap();
        noted.unanswered += 1;
        noted.most_unanswered = noted.most_unanswered.max(noted.unanswered);
        Self(book)
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().unanswered -= 1;
    }
}

/// The host. The n-th request for a path has the n-th play of it, later ones the last.
pub(crate) struct Site {
    pub(crate) address: String,
    book: Arc<Mutex<Book>>,
    _task: JoinSet<()>,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let book: Arc<Mutex<Book>> = Arc::default();
        let played = Arc::clone(&book);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let book = Arc::clone(&played);
                // A client that hangs up is what some tests are about.
                open.spawn(async move { drop(play(stream, &book).await) });
            }
        });
        Self {
            address,
            book,
            _task: task,
        }
    }

    /// What becomes of requests for this path, as it stands in them.
    pub(crate) fn has(&self, path: &str, plays: Vec<Play>) {
        let mut book = self.book.lock().unwrap();
        book.plays.insert(path.to_owned(), plays);
    }

    /// What was asked for, as it stood in the requests.
    pub(crate) fn asked(&self) -> Vec<String> {
        let heads = self.heads();
        let paths = heads.iter().filter_map(|head| head.split(' ').nth(1));
        paths.map(str::to_owned).collect()
    }

    /// The heads of the requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.book.lock().unwrap().heads.clone()
    }

    /// How many requests waited for their answers at once, at most.
    pub(crate) fn most_unanswered(&self) -> usize {
        self.book.lock().unwrap().most_unanswered
    }
}

async fn play(mut stream: TcpStream, book: &Mutex<Book>) -> std::io::Result<()> {
    let unanswered = Unanswered::new(book);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let play = {
        let mut book = book.lock().unwrap();
        book.heads.push(head);
        let number = book.asked.entry(path.clone()).or_default();
        *number += 1;
        let at = *number - 1;
        let plays = book.plays.get(&path);
        plays.and_then(|plays| plays.get(at.min(plays.len() - 1)).cloned())
    };
    match play {
        Some(Play::Say(wait, bytes)) => {
            tokio::time::sleep(wait).await;
            // Whoever has the answer may ask for the next file at once.
            drop(unanswered);
            stream.write_all(&bytes).await?;
        }
        Some(Play::Silence) => {
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
            drop(unanswered);
        }
        None => {
            drop(unanswered);
            let lost = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(lost.as_bytes()).await?;
        }
    }
    stream.shutdown().await
}
