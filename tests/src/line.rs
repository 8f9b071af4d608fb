//! A line between a client and its server that can be made slow or swallow everything, and whose
//! far end may move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Forwards connections until it is dropped.
pub struct Line {
    port: u16,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    upstream: AtomicU16,
    delay_ms: AtomicU64,
    /// Whether nothing passes, in either direction, and nothing is even read.
    holds: watch::Sender<bool>,
}

impl Line {
    /// A line to whatever listens on `port` of this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let own_port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State {
            upstream: AtomicU16::new(port),
            delay_ms: AtomicU64::new(0),
            holds: watch::Sender::new(false),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self {
            port: own_port,
            state,
            accepting,
        }
    }

    /// Where to connect to instead.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// New connections go there.
    pub fn lead_to(&self, port: u16) {
        self.state.upstream.store(port, Ordering::Relaxed);
    }

    /// From now on whatever is said arrives so much later.
    pub fn delay(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).expect("a test is shorter");
        self.state.delay_ms.store(ms, Ordering::Relaxed);
    }

    /// From now on neither side hears anything of the other, not even its end; or it does again.
    pub fn black_hole(&self, holds: bool) {
        self.state.holds.send_replace(holds);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Its connections end with it.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(forward(client, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(client: TcpStream, state: Arc<State>) {
    let upstream = state.upstream.load(Ordering::Relaxed);
    let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)).await else {
        return;
    };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::join!(
        pump(from_client, to_server, &state),
        pump(from_server, to_client, &state)
    );
}

/// Until one side ends, or nobody listens any more.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State) {
    let mut holds = state.holds.subscribe();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if holds.wait_for(|holds| !holds).await.is_err() {
            return;
        }
        let Ok(count @ 1..) = from.read(&mut buffer).await else {
            break;
        };
        if holds.wait_for(|holds| !holds).await.is_err() {
            return;
        }
        let delay = Duration::from_millis(state.delay_ms.load(Ordering::Relaxed));
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
    // The other direction may have something to say yet; if not, it ends by itself.
    let _ = holds.wait_for(|holds| !holds).await;
    let _ = to.shutdown().await;
}
