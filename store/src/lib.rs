//! Everything durable: SQL, transactions, the fence applied to rows, money, objects.
//!
//! # The rules that every transaction obeys
//!
//! 1. **One file, one transaction** (`tx/`). Each opens with the locks it takes, what it checks,
//!    what it writes and what it answers. It implements [`run::Transaction`] and is executed by
//!    [`Store::execute`], which names, measures, retries and, after an unknown COMMIT, runs it again.
//! 2. **Many in, one answer each.** A call takes a list; one is a list of one. One locking read, one
//!    pure check per row, one set-based write.
//! 3. **Lock order**: request, device, org, job, attempt, the org's ledger account, upload, outbox,
//!    webhook endpoint, webhook delivery; several of a kind
//!    by id; always `FOR NO KEY UPDATE` (a plain `FOR UPDATE` deadlocks with foreign-key inserts).
//!    Nothing that holds a job locks a device or an org.
//! 4. **Only locked rows decide.** A row that is merely joined is the statement's old snapshot, also
//!    after a wait: what a decision compares comes out of a materialized locking CTE or an earlier
//!    locking statement.
//! 5. **The clock is read after the lock**, outside the locking CTE, by `authority_now()` only. No
//!    caller supplies a time.
//! 6. **The fence twice.** [`fence::judge`] on the locked row, and the same facts in the `WHERE`. The
//!    number of rows written is compared with the number judged; a difference is an
//!    [`error::StoreError::Inconsistency`] and rolls everything back.
//! 7. **Nothing waits inside a transaction** but Postgres: no network, no process, no channel.
//!
//! A slot is free only when its attempt's end is durable: the only proof of that is a
//! [`FinalizedAttempt`], which this crate alone can build, and only after COMMIT returned or from a
//! row that was terminal when it was read.
#![warn(missing_docs)]

pub mod admin;
pub mod artifacts;
pub mod error;
#[cfg(feature = "testing")]
pub mod fault;
pub mod fence;
pub mod finalized;
pub mod identity;
mod rows;
pub mod run;
pub mod secrets;
pub mod settings;
pub mod tx;
pub mod vault;
pub mod views;

pub use error::StoreError;
pub use finalized::FinalizedAttempt;
pub use run::Store;
pub use settings::StoreSettings;
