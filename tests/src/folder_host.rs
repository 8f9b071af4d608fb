//! A buyer's own host with a folder on it, as it is on disk at the moment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The host: whole files, and nothing of what is not there.
pub struct FolderHost {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl FolderHost {
    /// A host on this machine.
    pub async fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (list, folder) = (Arc::clone(&asked), folder.to_owned());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (list, folder) = (Arc::clone(&list), folder.clone());
                // A client that hangs up is no trouble.
                open.spawn(async move { drop(serve(stream, &list, folder).await) });
            }
        });
        Self {
            port,
            asked,
            _task: task,
        }
    }

    /// The address of a file in it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// What was asked for so far, as it stood in the requests.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    asked: &Mutex<Vec<String>>,
    folder: PathBuf,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let path = target.split('?').next().unwrap_or_default();
    let path = percent_decode_str(path).decode_utf8_lossy();
    let file = folder.join(path.trim_start_matches('/'));
    asked
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(target);
    let (status, body) = match tokio::fs::read(file).await {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}
