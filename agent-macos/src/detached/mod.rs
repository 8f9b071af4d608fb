//! Leases outside the session: one process claims, others work, and any of them ends it.
//!
//! They share a token file. Nothing here runs by itself: whoever holds a lease renews it.

pub mod commands;
pub mod desk;
pub mod lease;
pub mod publish;
pub mod token_file;

pub use desk::{AskError, Desk};
pub use lease::{Claim, Claimed, EndError, Lease, Progressed};
pub use token_file::{Reserved, TokenFileError};
