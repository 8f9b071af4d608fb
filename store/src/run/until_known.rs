//! Runs a transaction until its outcome is known: again after a conflict, and again on a fresh
//! connection when nobody knows whether its COMMIT happened.

use std::time::{Duration, Instant};

use super::transaction::{RunError, Share, Transaction, Tx};
use super::{Store, record};
use crate::error::{FailureKind, StoreError};

const MAX_RUNS: u32 = 6;

impl Store {
    pub(super) async fn run_until_known<X: Transaction>(
        &self,
        transaction: &X,
    ) -> Result<X::Output, StoreError> {
        let mut rerun = false;
        let mut run = 1;
        loop {
            let started = Instant::now();
            let (error, outcome) = match self.run_once(transaction, rerun).await {
                Ok(output) => {
                    record(X::NAME, "committed", started);
                    return Ok(output);
                }
                Err(RunError::RolledBack(error)) => (error, "rolled_back"),
                Err(RunError::OutcomeUnknown(error)) => {
                    rerun = true;
                    (error, "unknown")
                }
            };
            record(X::NAME, outcome, started);
            if let StoreError::Inconsistency { table, what } = &error {
                metrics::counter!("fencepost_invariant_violations_total", "id" => *table)
                    .increment(1);
                tracing::error!(tx = X::NAME, table, what, "rows contradict each other");
            }
            let is_over = match error.kind() {
                FailureKind::Final => true,
                // Nothing was begun: whoever asked may ask again. But an unknown COMMIT must become
                // known, and what leases hang on outlasts a restart of Postgres.
                FailureKind::Busy => !rerun && X::SHARE == Share::General,
                FailureKind::Conflict | FailureKind::Connection => false,
            };
            if is_over || run == MAX_RUNS {
                return Err(error);
            }
            tracing::warn!(tx = X::NAME, run, rerun, %error, "running a transaction again");
            tokio::time::sleep(Duration::from_millis(20 << run)).await;
            run += 1;
        }
    }

    async fn run_once<X: Transaction>(
        &self,
        transaction: &X,
        rerun: bool,
    ) -> Result<X::Output, RunError> {
        let rolled_back = |error: sqlx::Error| RunError::RolledBack(error.into());
        let _room = self.room(X::SHARE).await.map_err(RunError::RolledBack)?;
        #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
        let inner = self.inner.pool.begin().await.map_err(rolled_back)?;
        let settings = self.inner.settings.clone();
        let mut tx = Tx {
            inner,
            rerun,
            fence: self.fence,
            gateway: self.gateway,
            settings,
            #[cfg(feature = "testing")]
            name: X::NAME,
            #[cfg(feature = "testing")]
            faults: self.faults.clone(),
        };
        tx.point("begun").await;
        // An error drops the transaction, which rolls it back.
        let output = transaction
            .run(&mut tx)
            .await
            .map_err(RunError::RolledBack)?;
        tx.point("written").await;
        #[cfg(feature = "testing")]
        let (faults, name) = (tx.faults.clone(), tx.name);
        #[cfg(feature = "testing")]
        if let Some(cut) = faults.take_cut(name) {
            return Err(tx.cut(cut).await);
        }
        match tx.inner.commit().await {
            Ok(()) => {
                #[cfg(feature = "testing")]
                faults.pass(name, "committed").await;
                Ok(output)
            }
            Err(error) => {
                let error = StoreError::from(error);
                Err(match error.kind() {
                    FailureKind::Connection => RunError::OutcomeUnknown(error),
                    FailureKind::Conflict | FailureKind::Busy | FailureKind::Final => {
                        RunError::RolledBack(error)
                    }
                })
            }
        }
    }
}
