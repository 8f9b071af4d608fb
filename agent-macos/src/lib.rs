//! The daemon on a provider's Mac: it pulls attempts from a gateway, runs them with FFmpeg, uploads
//! and commits. It never works, uploads or commits on a lease that it may have lost.
//!
//! ```text
//!  gateway <── WebSocket ── connection <──> agent ──> writing ──> outbox    leases/*.json
//!                                           │    │     (a thread)
//!                                  frames, time  └──> jobs ──> job_runner: download, media, upload
//!                                           │                     (on other threads; children in
//!                                           └──> core: decides,    groups that the roster knows)
//!                                                touches nothing
//! ```
//!
//! Where to look: `core` for what is decided, `lease` and `clock` for until when, `outbox` for what
//! survives a crash, `agent` for the loop, `detached` for leases that span processes, `machine` for the disk and for what a killed agent left, `job_runner` for one attempt's work.
#![warn(missing_docs)]

pub mod address;
pub mod agent;
pub mod backoff;
pub mod cli;
pub mod clock;
pub mod closing;
pub mod connection;
pub mod core;
pub mod credential;
pub mod detached;
pub mod http;
pub mod job_runner;
pub mod jobs;
pub mod kept;
pub mod lease;
pub mod logging;
pub mod machine;
pub mod outbox;
pub mod pairing;
pub mod power;
pub mod reporter;
pub mod reserve;
pub mod run;
pub mod runner;
pub mod state_dir;
pub mod status;
pub mod transfer;
pub mod workspace;
