//! What time does to jobs that wait: a delay ends, or the admission deadline passes.
//!
//! Locks: jobs, by id, skipping those that others hold; then ledger accounts. Checks: still waiting,
//! and due by the clock read after the lock. Writes: a place in the queue again; or
//! `queued → failed` with `deadline_exceeded`.

use fencepost_domain::ending::{JobFacts, JobNext};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::JobId;
use fencepost_domain::job::JobStatus;
use fencepost_domain::ledger::PriceTerms;
use time::OffsetDateTime;
use uuid::Uuid;

use super::finish::{Finish, finish};
use crate::error::StoreError;
use crate::rows::JobRow;
use crate::run::{Store, Transaction, Tx};

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueReport {
    /// Jobs whose delay is over.
    pub woken: usize,
    /// Jobs that failed by their deadline.
    pub overdue: usize,
}

impl Store {
    /// Wakes and fails up to `limit` waiting jobs each.
    pub async fn tend_queue(&self, limit: u32) -> Result<QueueReport, StoreError> {
        self.execute(TendQueue {
            limit: i64::from(limit),
        })
        .await
    }
}

struct TendQueue {
    limit: i64,
}

impl Transaction for TendQueue {
    const NAME: &'static str = "tend_queue";
    type Output = QueueReport;

    async fn run(&self, tx: &mut Tx) -> Result<QueueReport, StoreError> {
        let due = sqlx::query!(
            r#"-- tend_queue: find
            with clock as materialized (select authority_now() as now)
            (select id as "id!", true as "overdue!" from jobs
             where (queue_key is not null or wake_at is not null)
                and admission_deadline <= (select now from clock)
             order by admission_deadline limit $1)
            union all
            (select id, false from jobs
             where wake_at is not null and wake_at <= (select now from clock) order by wake_at limit $1)"#,
            self.limit
        )
        .fetch_all(&mut **tx)
        .await?;
        if due.is_empty() {
            return Ok(QueueReport::default());
        }
        let ids: Vec<Uuid> = due.iter().map(|row| row.id).collect();
        let (now, rows) = lock_waiting(tx, &ids).await?;
        let (overdue, asleep): (Vec<_>, Vec<_>) = rows
            .iter()
            .partition(|row| row.facts.admission_deadline <= now);
        let woken = wake(tx, now, &asleep).await?;
        let next = JobNext::Failed(FailureCode::DeadlineExceeded);
        let ends: Vec<_> = overdue
            .iter()
            .map(|row| Finish::job_alone(row, next))
            .map(|end| end.message("no Mac could start the job before its admission deadline"))
            .collect();
        finish(tx, now, ends).await?;
        Ok(QueueReport {
            woken,
            overdue: overdue.len(),
        })
    }
}

async fn wake(tx: &mut Tx, now: OffsetDateTime, jobs: &[&JobRow]) -> Result<usize, StoreError> {
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.id.0).collect();
    let woken = sqlx::query!(
        r#"-- tend_queue: wake
        update jobs set queue_key = order_key, wake_at = null
        where id = any($1) and wake_at <= $2"#,
        &ids,
        now
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(usize::try_from(woken).unwrap_or(0))
}

/// Locks jobs that wait, by id, then reads the clock. Jobs that others hold are left out, as are
/// jobs that do not wait any more.
pub(super) async fn lock_waiting(
    tx: &mut Tx,
    ids: &[Uuid],
) -> Result<(OffsetDateTime, Vec<JobRow>), StoreError> {
    let records = sqlx::query!(
        r#"-- lock_waiting
        with j as materialized (
            select * from jobs where id = any($1) and status = 'queued'
            order by id for no key update skip locked
        ), clock as materialized (
            select authority_now() as now from (select count(*) from j) all_are_locked
        )
        select clock.now as "now!", j.id as "id?",
            j.max_attempts as "max_attempts?", j.charged_attempts as "charged_attempts?",
            j.returned_offers as "returned_offers?",
            j.admission_deadline as "admission_deadline?", j.held_micros as "held_micros?",
            j.epoch_counter as "epoch_counter?"
        from clock left join j on true"#,
        ids
    )
    .fetch_all(&mut **tx)
    .await?;
    let now = records
        .first()
        .map(|record| record.now)
        .ok_or_else(|| StoreError::inconsistent("jobs", "a locking read gave no clock"))?;
    let rows = records.into_iter().filter_map(|record| {
        Some(JobRow {
            id: JobId(record.id?),
            facts: JobFacts {
                status: JobStatus::Queued,
                max_attempts: record.max_attempts?,
                charged_attempts: record.charged_attempts?,
                returned_offers: record.returned_offers?,
                returned_widely: false,
                admission_deadline: record.admission_deadline?,
            },
            // A waiting job publishes nothing, so neither its price nor its service matter here.
            terms: PriceTerms {
                base_micros: 0,
                per_minute_micros: 0,
                provider_share_bps: 0,
            },
            held_micros: record.held_micros?,
            epoch_counter: record.epoch_counter?,
            service: String::new(),
            params: serde_json::Value::Null,
            max_output_seconds: 0,
            cancel_requested_at: None,
        })
    });
    Ok((now, rows.collect()))
}
