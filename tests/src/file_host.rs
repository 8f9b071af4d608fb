//! A buyer's own host, with one film on it: it serves parts of it, and does what a test wants besides.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What one request is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serve {
    /// The file, or the part of it that was asked for.
    File,
    /// This many bytes of it, and then the line is cut.
    Cut(usize),
    /// This status.
    Status(u16),
    /// A redirect to another place of the same host, where the file is.
    Moved,
}

/// The host; the n-th request is answered by the n-th act, later ones by the last.
pub struct FileHost {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl FileHost {
    /// A host on this machine with this file that acts like this.
    pub async fn start(file: &[u8], acts: &[Serve]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (list, file, acts) = (Arc::clone(&seen), Arc::new(file.to_vec()), acts.to_vec());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (list, file, acts) = (Arc::clone(&list), Arc::clone(&file), acts.clone());
                // A client that hangs up is no trouble.
                open.spawn(async move { drop(serve(stream, &list, &file, &acts).await) });
            }
        });
        Self {
            port,
            seen,
            _task: task,
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of the file, with a signature in it.
    pub fn url(&self, signature: &str) -> String {
        format!("http://127.0.0.1:{}/film.mp4?sig={signature}", self.port)
    }

    /// The heads of all requests so far, in lower case.
    pub fn seen(&self) -> Vec<String> {
        lock(&self.seen).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    file: &[u8],
    acts: &[Serve],
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let number = {
        let mut seen = lock(seen);
        seen.push(head.clone());
        seen.len() - 1
    };
    let act = acts[number.min(acts.len() - 1)];
    let (answer, body) = answer(act, &head, file);
    stream.write_all(answer.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.shutdown().await
}

/// The head of the answer, and its body as far as it is sent.
fn answer<'f>(act: Serve, head: &str, file: &'f [u8]) -> (String, &'f [u8]) {
    let tag = hex::encode(&Sha256::digest(file)[..8]);
    let all = file.len();
    let start = head
        .lines()
        .find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-'))
        .filter(|_| head.contains(&format!("if-range: \"{tag}\"")))
        .and_then(|start| start.parse().ok())
        .unwrap_or(0);
    let range = format!("content-range: bytes {start}-{}/{all}\r\n", all - 1);
    let (line, range) = match start {
        0 => ("200 OK", ""),
        _ => ("206 Partial Content", range.as_str()),
    };
    let rest = &file[start..];
    let length = rest.len();
    let whole = format!(
        "HTTP/1.1 {line}\r\netag: \"{tag}\"\r\n{range}content-length: {length}\r\n\
         connection: close\r\n\r\n"
    );
    match act {
        Serve::File => (whole, rest),
        Serve::Cut(bytes) => (whole, &rest[..bytes.min(length)]),
        Serve::Status(status) => {
            let head = format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n");
            (head, b"")
        }
        Serve::Moved => {
            let to = "location: /elsewhere.mp4\r\n";
            (
                format!("HTTP/1.1 302 Found\r\n{to}content-length: 0\r\n\r\n"),
                b"",
            )
        }
    }
}
