//! The kit that the tests are written with: a private Postgres, a database for each test, a clock
//! that is moved instead of waited for, a world that is built in a few lines, and a checker that
//! asserts after every test what must always hold.
//!
//! - [`server`]: one Postgres for the whole run, and the template that databases are copied from.
//! - [`db`]: a database of its own for a test; when it is dropped, the [`checker`] runs.
//! - [`clock`]: `authority_now()` under the test's control.
//! - [`world`]: an org with credit, devices, jobs and leases in the state that a test begins with.
//! - [`lease`]: what a device holds, and what it says with it; [`looks`]: what a test asks afterwards.
//! - [`blocker`]: a transaction held open, on a row or on COMMIT itself.
//! - [`proxy`]: a TCP proxy between a client and its server that can cut all connections.
//! - [`counters`]: what the code under test has counted in its metrics.
#![warn(missing_docs)]

pub mod blocker;
pub mod checker;
pub mod clock;
pub mod counters;
pub mod db;
pub mod lease;
pub mod looks;
pub mod proxy;
pub mod server;
pub mod world;

pub use blocker::Blocker;
pub use clock::Clock;
pub use db::TestDb;
pub use lease::{Device, Lease};
pub use proxy::Proxy;
pub use world::World;
