//! What happens, in what order, inside one gateway.
//!
//! ```text
//! System
//! ├─ Registry    device → its newest session here; routes ends and stops; supersedes older ones
//! ├─ Matcher     standing pulls; one round at a time leases for all of them
//! ├─ Finalizer   commits, fails, releases: begin → verify → settle → AttemptFinalized
//! │   └─ Verifier  copies and checks an output, so many at a time, no lock held
//! ├─ Sweeper     leases, graces, delays, deadlines that are over; re-reads the sessions
//! ├─ Timekeeper  the mark of Postgres's clock, and whether the clock is to be believed
//! ├─ Collector   deletes what ended attempts left in the object store
//! ├─ Announcer   reads for all who watch jobs, and tells each what is new
//! ├─ Dispatcher  webhooks that are due: claim → send → record, no transaction open meanwhile
//! └─ DeviceSession (one per socket, never restarted: the device reconnects)
//! ```
//!
//! | who | sends what | to whom | after what |
//! |---|---|---|---|
//! | transport | `FromTransport` | session | a frame came |
//! | session | `PullLease` | matcher | the agent pulled |
//! | matcher | `OfferLease` | session | the lease is committed |
//! | session | `CommitAttempt`, `EndAttempt`, `ReturnOffers`, `SessionEnded` | finalizer | the agent said so |
//! | finalizer, sweeper | `AttemptFinalized` | session, through the registry | the end is committed |
//! | sweeper | `SessionRefresh` | session | each sweep |
//!
//! Three laws: messages are bounded and every refusal is handled (`try_send`, never `do_send`); a
//! transaction never runs in a future that a socket owns; **reply first, then release the slot, in
//! one turn of the session**, and only for a `FinalizedAttempt`, which the store alone can build.
#![warn(missing_docs)]

pub mod announcer;
pub mod batch;
pub mod collector;
pub mod finalizer;
pub mod health;
pub mod matcher;
pub mod messages;
mod monotonic;
pub mod registry;
pub mod session;
pub mod settings;
pub mod shared;
pub mod supervision;
pub mod sweeper;
pub mod system;
pub mod timekeeper;
pub mod transport;
pub mod verifier;
pub mod webhooks;

pub use settings::ActorSettings;
pub use system::{ActorSystem, Dependencies};
