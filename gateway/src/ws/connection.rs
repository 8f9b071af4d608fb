//! A handle on the TCP connection, to cut it from outside.

use std::any::Any;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Weak};

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use rustix::net::Shutdown;

/// What we wrote must be acknowledged within this time, or the connection is gone.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MS: u32 = 30_000;

/// Lives as long as the connection: a second name for a socket keeps it open.
struct Connection(Arc<OwnedFd>);

/// Cuts a connection, if it still exists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cutter(Weak<OwnedFd>);

impl Cutter {
    /// The cutter of the connection that a request came in on.
    pub(crate) fn of(request: &actix_web::HttpRequest) -> Self {
        let connection = request.conn_data::<Connection>();
        connection
            .map(|connection| Self(Arc::downgrade(&connection.0)))
            .unwrap_or_default()
    }

    /// Ends the connection in both directions, whatever is still unwritten.
    pub(crate) fn cut(&self) {
        if let Some(socket) = self.0.upgrade()
            && let Err(error) = rustix::net::shutdown(&*socket, Shutdown::Both)
        {
            tracing::debug!(%error, "the connection was gone already");
        }
    }
}

/// For `HttpServer::on_connect`: remembers each connection, and has the system end it when the
/// peer has vanished or has stopped reading for long.
pub fn remember(connection: &dyn Any, extensions: &mut Extensions) {
    let Some(stream) = connection.downcast_ref::<TcpStream>() else {
        return;
    };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS) {
        tracing::debug!(%error, "a connection has no limit for unacknowledged data");
    }
    match stream.as_fd().try_clone_to_owned() {
        Ok(socket) => {
            extensions.insert(Connection(Arc::new(socket)));
        }
        Err(error) => tracing::warn!(%error, "a connection cannot be cut from outside"),
    }
}
