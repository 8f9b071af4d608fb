//! Request bodies: read within a limit, understood strictly, refused by field.
//!
//! serde_json alone would take NUL characters that Postgres cannot store, let the last of two
//! equal keys win, and name a place in the text where a person wants the name of a field.

mod fields;
mod json;
mod mend;
mod read;

pub use fields::Fields;
pub use json::parse;
pub use mend::mend_escapes;
pub use read::{MAX_BODY_BYTES, read_agent_json, read_json};

#[cfg(test)]
mod tests;
