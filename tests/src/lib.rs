//! The kit that the tests are written with: a private Postgres, a database for each test, a clock
//! that is moved instead of waited for, a world that is built in a few lines, and a checker that
//! asserts after every test what must always hold.
//!
//! - [`server`]: one Postgres for the whole run, and the template that databases are copied from.
//! - [`db`]: a database of its own for a test; when it is dropped, the [`checker`] runs.
//! - [`clock`]: `authority_now()` under the test's control.
//! - [`world`]: an org with credit, devices, jobs and leases in the state that a test begins with.
//! - [`claims`]: leases that are claimed outside a session.
//! - [`lease`]: what a device holds, and what it says with it; [`looks`]: what a test asks afterwards.
//! - [`blocker`]: a transaction held open, on a row or on COMMIT itself.
//! - [`proxy`]: a TCP proxy between a client and its server that can cut all connections.
//! - [`chance`]: choices that can be repeated; [`mixed`]: jobs that end in every way by chance;
//!   [`holds`]: everything that settles a hold, at once.
//! - [`counters`]: what the code under test has counted in its metrics; [`plans`]: how Postgres carries
//!   out its statements.
//!
//! For tests of the real processes over real sockets:
//!
//! - [`gateway`]: the gateway as a child process, and the site around it.
//! - [`agent_client`]: a protocol client that poses as an agent.
//! - [`agent_frames`]: what it says about a lease.
//! - [`buyer`]: an HTTP client with an API key; [`described`] holds what it sees against the
//!   description of the API.
//! - [`event_stream`]: a buyer's stream of events.
//! - [`processes`]: programs started, frozen, killed and never left behind.
//! - [`agent_process`]: the real agent.
//! - [`stand_ins`]: programs that stand in for FFmpeg.
//! - [`receiver`]: a buyer's own server, for webhooks.
//! - [`stage`]: gateways on a Postgres of their own, to be stopped and killed.
//! - [`mod@line`]: a line between two that can be slow, silent, and led elsewhere.
//! - [`terminal`]: a buyer's terminal.
//! - [`s3`]: a bucket, that can be away.
//! - [`worker`]: a worker that asks over HTTP for leases outside a socket.
//! - [`wait`]: waiting for a condition.
#![warn(missing_docs)]

pub mod agent_client;
pub mod agent_frames;
pub mod agent_process;
pub mod blocker;
pub mod buyer;
pub mod chance;
pub mod checker;
pub mod claims;
pub mod clock;
pub mod counters;
pub mod db;
pub mod described;
pub mod event_stream;
pub mod file_host;
pub mod folder_host;
pub mod gateway;
pub mod holds;
pub mod lease;
pub mod line;
pub mod looks;
pub mod mixed;
pub mod plans;
pub mod processes;
pub mod proxy;
pub mod pty;
pub mod receiver;
pub mod s3;
pub mod server;
pub mod stage;
pub mod stand_ins;
pub mod terminal;
pub mod wait;
pub mod worker;
pub mod world;

pub use blocker::Blocker;
pub use clock::Clock;
pub use db::TestDb;
pub use gateway::{Site, TestGateway};
pub use lease::{Device, Lease};
pub use line::Line;
pub use proxy::Proxy;
pub use receiver::Receiver;
pub use s3::Bucket;
pub use stage::Stage;
pub use world::World;
