//! The real `fencepost-agent`, with the real FFmpeg, against a gateway that a test plays over real
//! sockets.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, helpers included"
)]

mod agent;
mod gateway;
mod scripted;
mod session;

mod bundle_offers;
mod clocks;
mod detached;
mod disk;
mod ending;
mod faults;
mod fencing;
mod fetch;
mod launchd;
mod load;
mod pairing;
mod stopping;
mod transfer;
mod work;
