//! A buyer deletes a job that has ended: its files are given up, and what the buyer and the Macs said
//! in it is erased. Ids, times, statuses, prices and digests stay: the ledger and the fences need them.
//!
//! Locks: the job; then its attempts, by id; then the ledger account. Checks: the job has ended. Writes:
//! the texts, all in one transaction with the moment from which nobody is shown the job. Its
//! idempotency key keeps its meaning until its time is over.

use fencepost_domain::ids::{JobId, OrgId};

use super::delete_files::{FilesDeleted, give_up};
use crate::error::StoreError;
use crate::rows::job_status;
use crate::run::{Store, Transaction, Tx};

impl Store {
    /// Deletes a job of `org`. May be repeated.
    pub async fn delete_job(&self, org: OrgId, job: JobId) -> Result<FilesDeleted, StoreError> {
        self.execute(DeleteJob { org, job }).await
    }
}

struct DeleteJob {
    org: OrgId,
    job: JobId,
}

impl Transaction for DeleteJob {
    const NAME: &'static str = "delete_job";
    type Output = FilesDeleted;

    async fn run(&self, tx: &mut Tx) -> Result<FilesDeleted, StoreError> {
        let locked = sqlx::query!(
            r#"-- delete_job: lock
            select status::text as "status!", erased_at is not null as "is_erased!"
            from jobs where id = $1 and org_id = $2 for no key update"#,
            self.job.0,
            self.org.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(locked) = locked else {
            return Ok(FilesDeleted::NoJob);
        };
        if locked.is_erased {
            return Ok(FilesDeleted::Done);
        }
        let status = job_status(&locked.status)?;
        if !status.is_terminal() {
            return Ok(FilesDeleted::Live(status));
        }
        self.erase(tx).await?;
        give_up(tx, &[self.job.0]).await?;
        Ok(FilesDeleted::Done)
    }
}

impl DeleteJob {
    /// All that somebody said, wherever it is written down.
    async fn erase(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let job = self.job.0;
        sqlx::query!(
            r#"-- delete_job: attempts
            with mine as materialized (
                select id from attempts where job_id = $1 order by id for no key update
            )
            update attempts a set detail = null, failure_message = null
            from mine where a.id = mine.id"#,
            job
        )
        .execute(&mut **tx)
        .await?;
        let texts = [
            // The rows stay: what happened to a job is numbered without a gap.
            sqlx::query!(
                "-- delete_job\nupdate attempt_events set payload = '{}' where job_id = $1",
                job
            ),
            sqlx::query!(
                "-- delete_job\ndelete from job_words where job_id = $1",
                job
            ),
            sqlx::query!(
                r#"-- delete_job: answers
                update webhook_tries t set answer = null
                from outbox o join webhook_deliveries d on d.event_id = o.id
                -- by way of the deliveries: there are very many tries, which only these find
                where o.job_id = $1 and t.endpoint_id = d.endpoint_id and t.event_id = d.event_id
                    and t.answer is not null"#,
                job
            ),
        ];
        for erase in texts {
            erase.execute(&mut **tx).await?;
        }
        let erased = sqlx::query!(
            r#"-- delete_job
            update jobs set erased_at = authority_now(), params = '{}', inputs = '[]',
                metadata = '{}', failure_message = null
            where id = $1 and org_id = $2 and ended_at is not null and erased_at is null"#,
            job,
            self.org.0
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        if erased == 1 {
            return Ok(());
        }
        let what = format!("erasing {job} changed {erased} rows");
        Err(StoreError::inconsistent("jobs", what))
    }
}
