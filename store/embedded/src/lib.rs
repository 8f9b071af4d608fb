//! A Postgres that Fencepost starts itself, for `fencepost dev`, `fencepost demo` and the tests.
//!
//! It exists so that nobody must set up a database to try the product, and so that tests meet the
//! real thing. Unlike other embedded servers it keeps its promises: fsync is on, it never runs as
//! root, it listens on loopback and on its own socket only, under a password of its own, and a
//! server left behind by a `kill -9` is found and stopped by the next start.
//!
//! ```text
//! data_dir/            what the caller names; the lock lives here
//!   lock               held (flock) for as long as the server runs
//!   location           only if the server's user cannot reach data_dir: where `home` is
//! home/                data_dir itself, or a folder under /var/lib or /var/tmp
//!   password           0600, the caller's
//!   cluster/           PGDATA, the server user's, 0700
//!   run/               the Unix socket, the server user's, 0700 (in /tmp if the path is too long)
//!   server.log         what the server printed
//!   postgres-17/       only if no installed server was found: the downloaded one
//! ```
//!
//! The modules, in the order in which a start uses them: [`options`], `lock`, `account` (as whom),
//! `home` (where), `orphan` (whom to stop first), `binaries` and `download` (with what), `cluster`
//! (initdb), `server` (the process), `ready` (when). There is no SQL client here: databases beyond
//! the first are made by whoever connects.

mod account;
mod binaries;
mod cluster;
#[cfg(feature = "download")]
mod download;
mod error;
mod files;
mod home;
mod lock;
pub mod options;
mod orphan;
mod postgres;
mod program;
mod ready;
mod secret;
mod server;
mod watchdog;

pub use error::EmbeddedError;
pub use options::StartOptions;
pub use postgres::EmbeddedPostgres;
pub use secret::ConnectionUrl;
