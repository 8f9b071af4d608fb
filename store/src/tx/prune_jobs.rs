//! Records of jobs that ended long ago: the job, its attempts, what they wrote, what was told. Its
//! postings stay.
//!
//! Locks: jobs, by id, skipping those that others hold; nobody else is interested in them any more.
//! Checks: ended for so long by the clock's mark, its objects deleted, no idempotency key left. Writes:
//! deletes a few at a time.

use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// So many of the oldest jobs are looked at for each that may be pruned.
const LOOK_AT: i64 = 10;

impl Store {
    /// Prunes up to `limit` jobs; how many there were.
    pub async fn prune_jobs(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = i64::from(limit);
        self.execute(PruneJobs { limit }).await
    }
}

struct PruneJobs {
    limit: i64,
}

impl Transaction for PruneJobs {
    const NAME: &'static str = "prune_jobs";
    type Output = u64;

    async fn run(&self, tx: &mut Tx) -> Result<u64, StoreError> {
        let records = tx.settings.retention.records_micros();
        let jobs = sqlx::query_scalar!(
            r#"-- prune_jobs: lock
            with oldest as materialized (
                -- ids are made in order of time: no other index is needed to find the oldest
                select id, ended_at from jobs order by id limit $2
            ), due as materialized (
                select id from oldest o
                where ended_at + $3::bigint * interval '1 microsecond' <= (select authority_mark())
                    and not exists (select from attempts a
                        where a.job_id = o.id and a.collect_after is not null)
                    and not exists (select from idempotency_keys k where k.job_id = o.id)
                order by id limit $1
            )
            select id from jobs where id in (select id from due)
            order by id for no key update skip locked"#,
            self.limit,
            self.limit * LOOK_AT,
            records
        )
        .fetch_all(&mut **tx)
        .await?;
        if jobs.is_empty() {
            return Ok(0);
        }
        prune(tx, &jobs).await
    }
}

/// Children first.
async fn prune(tx: &mut Tx, jobs: &[Uuid]) -> Result<u64, StoreError> {
    let conn = &mut **tx;
    let attempts = sqlx::query_scalar!(
        "-- prune_jobs: attempts\nselect id from attempts where job_id = any($1)",
        jobs
    )
    .fetch_all(&mut *conn)
    .await?;
    let of_attempts = [
        sqlx::query!(
            "-- prune_jobs\ndelete from attempt_artifacts where attempt_id = any($1)",
            &attempts
        ),
        sqlx::query!(
            "-- prune_jobs\ndelete from attempt_grants where attempt_id = any($1)",
            &attempts
        ),
        sqlx::query!(
            "-- prune_jobs\ndelete from attempt_events where attempt_id = any($1)",
            &attempts
        ),
        // One that was never reaped is on a device that has not been here for as long.
        sqlx::query!(
            "-- prune_jobs\ndelete from workspaces where attempt_id = any($1)",
            &attempts
        ),
        sqlx::query!(
            "-- prune_jobs\ndelete from attempts where id = any($1)",
            &attempts
        ),
    ];
    for delete in of_attempts {
        delete.execute(&mut *conn).await?;
    }
    let of_jobs = [
        sqlx::query!(
            "-- prune_jobs\ndelete from job_inputs where job_id = any($1)",
            jobs
        ),
        sqlx::query!(
            "-- prune_jobs\ndelete from outbox where job_id = any($1)",
            jobs
        ),
    ];
    for delete in of_jobs {
        delete.execute(&mut *conn).await?;
    }
    let pruned = sqlx::query!("-- prune_jobs\ndelete from jobs where id = any($1)", jobs)
        .execute(&mut *conn)
        .await?
        .rows_affected();
    if pruned == jobs.len() as u64 {
        Ok(pruned)
    } else {
        let what = format!("pruned {pruned} jobs of {}", jobs.len());
        Err(StoreError::inconsistent("jobs", what))
    }
}
