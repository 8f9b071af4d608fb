//! What a transaction is: its statements, its name, and the connections it may use.

use std::future::Future;
use std::ops::{Deref, DerefMut};

use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use crate::error::StoreError;
use crate::fence::FenceMode;
use crate::settings::StoreSettings;

/// Which connections a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// All but the reserved ones: what buyers and operators ask for.
    General,
    /// Any: what keeps leases alive and settles them, so that no crowd of readers costs a lease.
    Reserved,
}

/// One transaction: what it needs is `self`, what it does is [`Transaction::run`].
///
/// It may be run more than once (see [`Tx::rerun`]), so `run` takes `&self`, makes no ids or secrets
/// of its own and answers from what is stored if a first run's COMMIT turns out to have happened.
pub(crate) trait Transaction: Send + Sync + 'static {
    /// The name in metrics, logs and (as the first comment) in `pg_stat_activity`.
    const NAME: &'static str;
    /// Which connections it may use.
    const SHARE: Share = Share::General;
    /// The answer.
    type Output: Send + 'static;
    /// The statements. An `Err` rolls back; an `Ok`, also a refusal, commits.
    fn run(&self, tx: &mut Tx) -> impl Future<Output = Result<Self::Output, StoreError>> + Send;
}

/// An open transaction.
pub(crate) struct Tx {
    pub(super) inner: sqlx::Transaction<'static, Postgres>,
    /// Whether an earlier run of the same transaction may have been committed.
    pub(crate) rerun: bool,
    /// Which halves of the fence are in force (both, except in tests of the fence itself).
    pub(crate) fence: FenceMode,
    /// The gateway that runs it, if one does.
    pub(crate) gateway: Option<Uuid>,
    /// The store's lengths of time.
    pub(crate) settings: StoreSettings,
    #[cfg(feature = "testing")]
    pub(super) name: &'static str,
    #[cfg(feature = "testing")]
    pub(super) faults: crate::fault::Faults,
}

impl Tx {
    /// A named point between two statements, at which a test may stop or kill us.
    #[cfg(feature = "testing")]
    pub(crate) async fn point(&self, point: &str) {
        self.faults.pass(self.name, point).await;
    }

    /// Ends as if the connection broke at COMMIT.
    #[cfg(feature = "testing")]
    pub(super) async fn cut(self, cut: crate::fault::Cut) -> RunError {
        let ended = match cut {
            crate::fault::Cut::Before => self.inner.rollback().await,
            crate::fault::Cut::After => self.inner.commit().await,
        };
        let what = ended.map_or_else(|error| error.to_string(), |()| "a test cut it".to_owned());
        RunError::OutcomeUnknown(StoreError::Unavailable(what))
    }

    /// A named point between two statements; nothing happens there but in tests.
    #[cfg(not(feature = "testing"))]
    #[expect(clippy::unused_async, reason = "as the one for tests")]
    pub(crate) async fn point(&self, _point: &str) {}
}

impl Deref for Tx {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.inner
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.inner
    }
}

/// How one run failed: certainly undone, or nobody knows.
pub(super) enum RunError {
    RolledBack(StoreError),
    OutcomeUnknown(StoreError),
}
