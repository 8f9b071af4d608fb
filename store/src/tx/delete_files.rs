//! Output and artifacts of ended jobs are given up: because their time is over, or because their buyer
//! says so. From then on they are not served; the collector deletes the objects, by the attempt that
//! wrote them.
//!
//! Locks: jobs, by id; then attempts; then ledger accounts. Checks: the job has ended. Whether time is
//! over is judged by the clock's mark: a clock that leapt ahead deletes nothing. Writes: the moment,
//! when the collector comes, and the bytes that the org does not use any more.

use fencepost_domain::ids::{JobId, OrgId};
use fencepost_domain::job::JobStatus;
use uuid::Uuid;

use crate::error::StoreError;
use crate::rows::job_status;
use crate::run::{Store, Transaction, Tx};

/// What became of a buyer's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesDeleted {
    /// They are given up, by now or before.
    Done,
    /// There is no such job.
    NoJob,
    /// The job has not ended.
    Live(JobStatus),
}

impl Store {
    /// Gives up the output and artifacts of a job of `org`. May be repeated.
    pub async fn delete_files(&self, org: OrgId, job: JobId) -> Result<FilesDeleted, StoreError> {
        self.execute(DeleteFiles { org, job }).await
    }

    /// Gives up the files of up to `limit` jobs whose time is over; how many there were.
    pub async fn expire_files(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = i64::from(limit);
        self.execute(ExpireFiles { limit }).await
    }
}

struct DeleteFiles {
    org: OrgId,
    job: JobId,
}

impl Transaction for DeleteFiles {
    const NAME: &'static str = "delete_files";
    type Output = FilesDeleted;

    async fn run(&self, tx: &mut Tx) -> Result<FilesDeleted, StoreError> {
        let label = sqlx::query_scalar!(
            r#"-- delete_files: lock
            select status::text as "status!" from jobs
            where id = $1 and org_id = $2 and erased_at is null for no key update"#,
            self.job.0,
            self.org.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(label) = label else {
            return Ok(FilesDeleted::NoJob);
        };
        let status = job_status(&label)?;
        if !status.is_terminal() {
            return Ok(FilesDeleted::Live(status));
        }
        give_up(tx, &[self.job.0]).await?;
        Ok(FilesDeleted::Done)
    }
}

struct ExpireFiles {
    limit: i64,
}

impl Transaction for ExpireFiles {
    const NAME: &'static str = "expire_files";
    type Output = u64;

    async fn run(&self, tx: &mut Tx) -> Result<u64, StoreError> {
        let jobs = sqlx::query_scalar!(
            r#"-- expire_files: lock
            with due as materialized (
                -- a winning attempt comes up again when its files' time is over
                select job_id from attempts where collect_after <= (select authority_mark())
                order by collect_after limit $1
            )
            select id from jobs
            where id in (select job_id from due) and files_deleted_at is null
                and files_expire_at <= (select authority_mark())
            order by id for no key update skip locked"#,
            self.limit
        )
        .fetch_all(&mut **tx)
        .await?;
        if jobs.is_empty() {
            return Ok(0);
        }
        give_up(tx, &jobs).await
    }
}

/// Gives up the files of jobs that have ended and are locked; how many had any.
pub(super) async fn give_up(tx: &mut Tx, jobs: &[Uuid]) -> Result<u64, StoreError> {
    let given_up = sqlx::query_scalar!(
        r#"-- delete_files
        with clock as materialized (
            select authority_now() as now
        ), given_up as (
            update jobs set files_deleted_at = clock.now from clock
            where id = any($1) and ended_at is not null and files_deleted_at is null
            returning id, org_id, winning_attempt_id,
                coalesce(output_size_bytes, 0) + artifact_bytes as stored_bytes
        ), collected as (
            update attempts a set collect_after = least(a.collect_after, clock.now)
            from given_up g, clock where a.id = g.winning_attempt_id
            returning 1
        ), accounts as materialized (
            select org_id from org_accounts where org_id in (select org_id from given_up)
                and (select count(*) from collected) >= 0
            order by org_id for no key update
        ), freed as (
            update org_accounts o set stored_bytes = o.stored_bytes - g.bytes
            from (select org_id, sum(stored_bytes)::bigint as bytes
                  from given_up group by org_id) g
            where o.org_id = g.org_id and (select count(*) from accounts) > 0
        )
        select count(*) as "jobs!" from given_up"#,
        jobs
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(given_up.unsigned_abs())
}
