//! The door to Postgres: how a transaction is run. Named, measured, on a runtime of its own.

mod transaction;
mod until_known;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

pub(crate) use self::transaction::{Share, Transaction, Tx};
use crate::admin::Actor;
use crate::admin::audit::AuditLine;
use crate::error::StoreError;
use crate::fence::FenceMode;
use crate::settings::StoreSettings;

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long anybody waits for a connection: a request that has to wait longer is better told so.
const CONNECTION_WITHIN: Duration = Duration::from_secs(2);
/// A Postgres that does not answer the simplest question for so long is not there.
const PING_WITHIN: Duration = Duration::from_secs(2);

/// The door to Postgres. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    fence: FenceMode,
    /// The gateway that it is the store of, if it is one's.
    gateway: Option<Uuid>,
    /// Who does what is done through it, for the audit log.
    actor: Actor,
    #[cfg(feature = "testing")]
    faults: crate::fault::Faults,
}

struct Inner {
    pool: PgPool,
    /// As many permits as there are connections that are not reserved.
    general: Semaphore,
    settings: StoreSettings,
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which is not allowed on a thread that runs async code.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Store {
    /// Opens a store. Connections are made on first use.
    ///
    /// The store has a small runtime of its own: a connection belongs to the thread pool that
    /// opened it (an actor's busy thread would stall every user of the pool), and a transaction
    /// whose caller goes away still runs to its end.
    pub fn open(url: &str, settings: StoreSettings) -> Result<Self, StoreError> {
        // First, because a runtime that was made for nothing must not be dropped in async code.
        let options = connect_options(url)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let _in_runtime = runtime.enter();
        let pool = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(CONNECTION_WITHIN)
            .connect_lazy_with(options);
        // A quarter is reserved, but never everything and never nothing.
        let reserved = (settings.max_connections / 4).max(1);
        let general = settings.max_connections.saturating_sub(reserved).max(1);
        let inner = Inner {
            pool,
            general: Semaphore::new(general as usize),
            settings,
            runtime: Some(runtime),
        };
        Ok(Self {
            inner: Arc::new(inner),
            fence: FenceMode::default(),
            gateway: None,
            actor: Actor::new("fencepost"),
            #[cfg(feature = "testing")]
            faults: crate::fault::Faults::from_environment(),
        })
    }

    /// The same store with only a part of the fence in force.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_fence(&self, fence: FenceMode) -> Self {
        Self {
            fence,
            ..self.clone()
        }
    }

    /// Where its transactions may be stopped.
    #[cfg(feature = "testing")]
    pub fn faults(&self) -> &crate::fault::Faults {
        &self.faults
    }

    /// The same store as that of a gateway that has just started: sessions begun through it are known
    /// to be over when it sweeps no more.
    #[must_use]
    pub fn of_new_gateway(&self) -> Self {
        Self {
            gateway: Some(Uuid::now_v7()),
            ..self.clone()
        }
    }

    /// The gateway that it is the store of, if it is one's.
    pub(crate) fn gateway(&self) -> Option<Uuid> {
        self.gateway
    }

    /// The same store in the hands of an operator, whose name the audit log gets.
    #[must_use]
    pub fn acting_for(&self, actor: Actor) -> Self {
        Self {
            actor,
            ..self.clone()
        }
    }

    /// A line of the audit log: whoever acts does `action` to `subject`.
    pub(crate) fn audit_line(&self, action: &'static str, subject: &impl ToString) -> AuditLine {
        AuditLine::new(&self.actor, action, subject)
    }

    /// The lengths of time that the store was opened with.
    pub fn settings(&self) -> &StoreSettings {
        &self.inner.settings
    }

    /// Closes all connections; open transactions end first.
    pub async fn close(&self) {
        let pool = self.inner.pool.clone();
        let _ = self.on_runtime(async move { pool.close().await }).await;
    }

    /// Whether Postgres answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let ping = self.read_reserved("ping", |mut conn| async move {
            sqlx::query!("-- ping\nselect 1 as one")
                .fetch_one(&mut *conn)
                .await
                .map(drop)
        });
        tokio::time::timeout(PING_WITHIN, ping)
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("it does not answer".to_owned())))
    }

    /// Room among the connections that are not reserved; `None` needs none.
    async fn room(&self, share: Share) -> Result<Option<SemaphorePermit<'_>>, StoreError> {
        match share {
            Share::Reserved => Ok(None),
            Share::General => {
                let permit = self.inner.general.acquire();
                match tokio::time::timeout(CONNECTION_WITHIN, permit).await {
                    Ok(Ok(permit)) => Ok(Some(permit)),
                    // Too long, or (never) closed.
                    Ok(Err(_)) | Err(_) => Err(StoreError::Busy),
                }
            }
        }
    }

    /// Runs a transaction to its answer.
    pub(crate) async fn execute<X: Transaction>(
        &self,
        transaction: X,
    ) -> Result<X::Output, StoreError> {
        let store = self.clone();
        self.on_runtime(async move { store.run_until_known(&transaction).await })
            .await?
    }

    /// Runs a query that writes nothing, on a pooled connection.
    pub(crate) async fn read<T, F, Q>(&self, name: &'static str, query: Q) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, sqlx::Error>> + Send + 'static,
        Q: FnOnce(sqlx::pool::PoolConnection<Postgres>) -> F + Send + 'static,
    {
        self.read_from(Share::General, name, query).await
    }

    /// The same for what leases hang on.
    pub(crate) async fn read_reserved<T, F, Q>(
        &self,
        name: &'static str,
        query: Q,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, sqlx::Error>> + Send + 'static,
        Q: FnOnce(sqlx::pool::PoolConnection<Postgres>) -> F + Send + 'static,
    {
        self.read_from(Share::Reserved, name, query).await
    }

    async fn read_from<T, F, Q>(
        &self,
        share: Share,
        name: &'static str,
        query: Q,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, sqlx::Error>> + Send + 'static,
        Q: FnOnce(sqlx::pool::PoolConnection<Postgres>) -> F + Send + 'static,
    {
        let store = self.clone();
        let started = Instant::now();
        let result = self
            .on_runtime(async move {
                let _room = store.room(share).await?;
                let conn = store.inner.pool.acquire().await?;
                query(conn).await.map_err(StoreError::from)
            })
            .await?;
        let outcome = if result.is_ok() {
            "committed"
        } else {
            "failed"
        };
        record(name, outcome, started);
        result
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.inner.pool
    }

    /// Awaits a future on the store's runtime; it runs to its end even if the caller goes away.
    pub(crate) async fn on_runtime<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let runtime = self.inner.runtime.as_ref().map(Runtime::handle);
        // `None` only while `Inner` is being dropped, when nobody can hold `&self`.
        let Some(runtime) = runtime else {
            return Err(StoreError::Unavailable("the store is closed".to_owned()));
        };
        runtime
            .spawn(future)
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))
    }
}

fn connect_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    // The error of a bad URL may repeat the URL, and with it the password.
    let unreadable = || StoreError::Unavailable("database.url cannot be understood".to_owned());
    let options: PgConnectOptions = url.parse().map_err(|_| unreadable())?;
    let timeout = format!("{}ms", STATEMENT_TIMEOUT.as_millis());
    Ok(options.application_name("fencepost").options([
        ("statement_timeout", timeout.as_str()),
        ("idle_in_transaction_session_timeout", timeout.as_str()),
        ("synchronous_commit", "on"),
        ("timezone", "UTC"),
    ]))
}

fn record(name: &'static str, outcome: &'static str, started: Instant) {
    metrics::counter!("fencepost_tx_total", "tx" => name, "outcome" => outcome).increment(1);
    metrics::histogram!("fencepost_tx_seconds", "tx" => name)
        .record(started.elapsed().as_secs_f64());
}
