//! Events on their way to buyers' servers, as Standard Webhooks has it.
//!
//! ```text
//! finish ─> delivery (a row for each endpoint, in the transaction of the event)
//!               │ due
//!          Dispatcher ── tx claim ─> POST, no transaction open ── tx record ─> over, or due again
//! ```

mod dispatcher;
mod message;
mod retry_after;
mod sending;

pub(crate) use dispatcher::SELDOM;
pub use dispatcher::{Dispatcher, RecordCall};

use fencepost_egress::Guarded;
use fencepost_store::vault::Vault;

/// What sending needs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// Opens the endpoints' secrets.
    pub vault: Vault,
    /// Goes to no address within.
    pub guarded: Guarded,
}
