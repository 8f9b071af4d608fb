//! What a caller may choose about the server; everything else is decided here, for safety.

use std::path::PathBuf;

/// How to start an [`EmbeddedPostgres`](crate::EmbeddedPostgres).
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// The folder that names this server. Made if missing; the same folder gives the same data.
    pub data_dir: PathBuf,
    /// Postgres's `max_connections`.
    pub max_connections: u16,
    /// Use the server binaries in this folder only, instead of looking for the newest.
    pub bin_dir: Option<PathBuf>,
    /// Stop the server when this process ends without saying so (`kill -9`, `exit`, a `static`
    /// that is never dropped). Without it, only the next start on the same folder stops it.
    pub stop_with_parent: bool,
    /// Delete the data when the server is stopped or dropped.
    pub temporary: bool,
}

impl StartOptions {
    /// A persistent server in `data_dir`: 100 connections, ends with its parent.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            max_connections: 100,
            bin_dir: None,
            stop_with_parent: true,
            temporary: false,
        }
    }
}
