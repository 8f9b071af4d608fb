//! What takes minutes: `cargo test -p fencepost-agent --test soak`. It measures time, so its tests
//! run one at a time.
//!
//! `SOAK_SECONDS` changes the length of what runs for a length (10 minutes).
#![cfg(test)]
#![expect(dead_code, reason = "the kit serves the short tests too")]

#[path = "it/agent.rs"]
mod agent;
#[path = "it/gateway.rs"]
mod gateway;
#[path = "it/load.rs"]
mod load;
#[path = "it/session.rs"]
mod session;
mod soaking;
