//! Money, read: what moved, what it adds up to, and whether it does.

mod check;
mod earnings;
mod journal;

pub use check::{LedgerCheck, LedgerFinding};
pub use earnings::MonthEarned;
pub use journal::{JournalFilter, KindTotal, PostingView, Statement};
