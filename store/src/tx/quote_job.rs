//! What a job would cost, without making one.
//!
//! Locks: the uploads that it names, as a submit does. Checks: all that a submit checks, but for the
//! balance, which is answered. Writes nothing.

use super::submit_job::{Account, NewJob, SubmitJob, Submitted};
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// The answer to a quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quoted {
    /// It can be asked for.
    Price {
        /// What would be held.
        held_micros: i64,
        /// What can be spent.
        available_micros: i64,
    },
    /// A submit would be refused for another reason than money.
    Refused(Submitted),
}

impl Store {
    /// What `job` would cost now.
    pub async fn quote_job(&self, job: NewJob) -> Result<Quoted, StoreError> {
        self.execute(QuoteJob(SubmitJob { jobs: vec![job] })).await
    }
}

struct QuoteJob(SubmitJob);

impl Transaction for QuoteJob {
    const NAME: &'static str = "quote_job";
    type Output = Quoted;

    async fn run(&self, tx: &mut Tx) -> Result<Quoted, StoreError> {
        let job = &self.0.jobs[0];
        let inputs = self.0.find_inputs(tx).await?;
        let endpoints = self.0.find_endpoints(tx).await?;
        if !job.names_one_of(&endpoints) {
            return Ok(Quoted::Refused(Submitted::UnknownEndpoint));
        }
        if let Err(refusal) = job.resolve(&inputs) {
            return Ok(Quoted::Refused(refusal));
        }
        let quotas = tx.settings.quotas;
        let account = sqlx::query_as!(
            Account,
            r#"-- quote_job
            select available_micros, open_jobs, stored_bytes,
                coalesce(max_open_jobs, $2) as "max_open_jobs!",
                coalesce(max_stored_bytes, $3) as "max_stored_bytes!"
            from org_accounts where org_id = $1"#,
            job.org.0,
            quotas.open_jobs,
            quotas.stored_bytes
        )
        .fetch_one(&mut **tx)
        .await?;
        if let Some(full) = account.is_full() {
            return Ok(Quoted::Refused(Submitted::QuotaReached(full)));
        }
        Ok(Quoted::Price {
            held_micros: job.held_micros(),
            available_micros: account.available_micros,
        })
    }
}
