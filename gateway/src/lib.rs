//! The edge: what buyers, agents and operators connect to.
//!
//! Nothing is decided here. A request is understood, handed to the store or to an actor, and the
//! answer is written; a frame is parsed and handed on. What a lease is worth is decided by the
//! transactions in `fencepost-store`, and in what order things happen by the actors.

pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod http;
pub mod telemetry;
pub mod ws;
