//! Why there are no figures, said so that a person knows what to do.

use std::path::PathBuf;

/// Why a run gave no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// Ctrl-C.
    #[error("stopped; everything that was started is cleared away")]
    Stopped,
    /// More sockets than files may be open.
    #[error(
        "{needed} files must be open at once and this process may open {allowed}: \
         raise the limit (`ulimit -n {needed}`) or ask for fewer devices"
    )]
    OpenFiles {
        /// How many are needed.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// The gateway's program is not there.
    #[error(
        "the gateway's program is not at {0}: build it (`cargo build --release -p fencepost-gateway \
         -p fencepost-load`) or name it with --gateway-binary"
    )]
    NoGateway(PathBuf),
    /// A gateway ended or never came up.
    #[error("a gateway {what}; the end of its log:\n{log}")]
    Gateway {
        /// What it did.
        what: String,
        /// Its last lines.
        log: String,
    },
    /// The gateway answered something that no life contains.
    #[error("unexpected: {0}")]
    Unexpected(String),
    /// Nothing moved for too long.
    #[error("no job was settled for {0} s, with {1} of {2} settled")]
    Stuck(u64, u64, u64),
    /// pgbench failed.
    #[error("pgbench: {0}")]
    Ceiling(String),
    /// The database.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// The URL of the database.
    #[error("--database is no URL such as postgres://user@host/postgres")]
    DatabaseUrl,
    /// Our own Postgres.
    #[error(transparent)]
    Embedded(#[from] fencepost_embedded::EmbeddedError),
    /// Setting the people up.
    #[error("setting up: {0}")]
    Store(#[from] fencepost_store::StoreError),
    /// HTTP.
    #[error("HTTP: {}", causes(.0))]
    Http(#[from] reqwest::Error),
    /// A socket.
    #[error("a device's socket: {0}")]
    Socket(#[from] Box<tokio_tungstenite::tungstenite::Error>),
    /// Files and processes.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// An error with everything that caused it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
