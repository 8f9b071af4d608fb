//! What must be true, with nothing that could wait, fail or tell the time.
//!
//! This crate holds the words and rules of Fencepost: identifiers, the two state machines, the
//! fence, the retry policy, the matcher's choice, money. It has no runtime, no database and no
//! network in its dependency list, so every rule here can be tested exhaustively in milliseconds
//! and used alike by the store (which enforces it) and by the agent (which obeys it).
#![warn(missing_docs)]

pub mod artifact_key;
pub mod attempt;
pub mod bundle;
pub mod clock;
pub mod commit_token;
pub mod device_health;
pub mod disposition;
pub mod duration;
pub mod ending;
pub mod failure;
pub mod fencing;
pub mod field;
pub mod ids;
pub mod job;
pub mod journal;
pub mod leap;
pub mod ledger;
pub mod matcher;
pub mod period;
pub mod replay;
pub mod retention;
pub mod secret_url;
pub mod service;
pub mod sha256;
pub mod supersede;
pub mod text;
pub mod verification;
pub mod waiting;
pub mod webhook;
pub mod webhook_message;
