//! The real `fencepost-agent`, with the real FFmpeg, against a gateway that a test plays over real
//! sockets.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, helpers included"
)]

mod agent;
mod gateway;
mod session;

mod ending;
mod fencing;
mod launchd;
mod pairing;
mod transfer;
mod work;
