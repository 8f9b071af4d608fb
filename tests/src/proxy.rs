//! A TCP proxy that can cut every connection through it, while both ends live on.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections to a server until it is dropped.
pub struct Proxy {
    port: u16,
    cuts: watch::Sender<u64>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// A proxy in front of whatever listens on `port` of this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let own_port = listener.local_addr().expect("it is bound").port();
        let (cuts, cut) = watch::channel(0);
        let accepting = tokio::spawn(accept(
            listener,
            SocketAddr::from(([127, 0, 0, 1], port)),
            cut,
        ));
        Self {
            port: own_port,
            cuts,
            accepting,
        }
    }

    /// Where to connect to instead.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Drops both halves of every connection; new ones are served.
    pub fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, cut: watch::Receiver<u64>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let mut cut = cut.clone();
        cut.mark_unchanged();
        // Ends with its connection, or with the proxy, whose sender it watches.
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(upstream).await {
                tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut server) => {}
                    _ = cut.changed() => {}
                }
            }
        });
    }
}
