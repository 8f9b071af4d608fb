//! What buyers, operators and sessions may read. Nothing here writes or locks, but that whoever asks
//! for the org of a key has its use noted (`note_key_use`).
//!
//! A lease that has run out is shown as lost, also before any sweep has seen it.

mod accounts;
mod audit;
mod gauges;
mod health;
mod job_list;
mod jobs;
mod journal;
mod keys;
mod ledger;
mod news;
mod sessions;
mod uploads;
mod waiting;
mod webhooks;

pub use accounts::{Balance, DeviceView};
pub use audit::AuditView;
pub use gauges::{LiveAttempts, QueueDepth, Slots};
pub(crate) use health::blame;
pub use job_list::{JobFilter, JobPage, MOST_EXAMINED};
pub use jobs::{AttemptView, JobView, OutputView, Posted};
pub use journal::{ArtifactView, EventView, SHOWN_EVENTS};
pub use keys::ApiKeyView;
pub use ledger::{
    JournalFilter, KindTotal, LedgerCheck, LedgerFinding, MonthEarned, PostingView, Statement,
};
pub use news::{JobEvent, JobNews, JobState, NEWS_PAGE, NewsAfter};
pub use sessions::{HeldAttempt, SessionView};
pub use uploads::UploadView;
pub use webhooks::{DeliveryFilter, DeliveryView, EndpointView, PendingDeliveries, TryView};
