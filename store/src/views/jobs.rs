//! A buyer's jobs.

use std::collections::HashMap;

use fencepost_domain::ids::{JobId, OrgId};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Store;

/// A job as its buyer sees it.
#[derive(Debug, Clone)]
pub struct JobView {
    /// Its id.
    pub id: Uuid,
    /// Whose it is.
    pub org_id: Uuid,
    /// Its service.
    pub service: String,
    /// Its parameters.
    pub params: Value,
    /// Its inputs, as the comment on their column has them.
    pub inputs: Value,
    /// The buyer's own words.
    pub metadata: Value,
    /// Its status; an active job whose lease has run out counts as queued.
    pub status: String,
    /// The webhook endpoint that it names.
    pub webhook_endpoint_id: Option<Uuid>,
    /// The budget.
    pub max_attempts: i32,
    /// How many attempts it has had.
    pub attempts: i32,
    /// How many of them were charged.
    pub charged_attempts: i32,
    /// From then on it is not started again.
    pub admission_deadline: OffsetDateTime,
    /// What was held.
    pub held_micros: i64,
    /// What was captured.
    pub captured_micros: i64,
    /// What was given back.
    pub released_micros: i64,
    /// The phase of its live attempt.
    pub phase: Option<String>,
    /// How much of the phase is done.
    pub percent: Option<f32>,
    /// What a device must have to run it.
    pub lane: String,
    /// Whether it can be leased now.
    pub is_ready: bool,
    /// When its delay ends, if it waits for one.
    pub wake_at: Option<OffsetDateTime>,
    /// Why it failed.
    pub failure_code: Option<String>,
    /// Why it failed, for a person.
    pub failure_message: Option<String>,
    /// Digest of its output, hexadecimal.
    pub output_sha256: Option<String>,
    /// Size of its output.
    pub output_size_bytes: Option<i64>,
    /// Duration of its output.
    pub output_seconds: Option<f64>,
    /// When it was posted.
    pub created_at: OffsetDateTime,
    /// When it ended.
    pub ended_at: Option<OffsetDateTime>,
    /// Until when its files are kept.
    pub files_expire_at: Option<OffsetDateTime>,
    /// When its output and artifacts were given up.
    pub files_deleted_at: Option<OffsetDateTime>,
}

/// One attempt as the buyer sees it.
#[derive(Debug, Clone)]
pub struct AttemptView {
    /// Its id.
    pub id: Uuid,
    /// Its number.
    pub attempt_number: i32,
    /// Its device.
    pub device_id: Uuid,
    /// Its device's name.
    pub device_name: String,
    /// Its epoch.
    pub lease_epoch: i64,
    /// Its status.
    pub status: String,
    /// How much of the phase is done.
    pub percent: Option<f32>,
    /// Whether it used up the budget.
    pub charged: bool,
    /// Why it did not win.
    pub failure_code: Option<String>,
    /// The same for a person.
    pub failure_message: Option<String>,
    /// When it was leased.
    pub leased_at: OffsetDateTime,
    /// When it ended.
    pub ended_at: Option<OffsetDateTime>,
}

/// Where the output of a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputView {
    /// There is no such job.
    NoJob,
    /// The job has not succeeded (yet).
    NotReady {
        /// Its status.
        status: String,
    },
    /// It was given up.
    Gone,
    /// The verified copy.
    Ready {
        /// Its object.
        object_key: String,
        /// Its size.
        size_bytes: i64,
        /// The service that made it.
        service: String,
        /// What that was told.
        params: Value,
        /// Until when a link that is made now can be used.
        link_expires_at: OffsetDateTime,
    },
}

/// What was posted for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// `hold`, `capture_provider`, `capture_platform` or `release`.
    pub kind: String,
    /// How much.
    pub amount_micros: i64,
}

/// What is shown of jobs, from those that the condition chooses.
macro_rules! select_jobs {
    ($condition:literal, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            JobView,
            r#"-- jobs
            select j.id, j.org_id, j.service, j.params, j.inputs, j.metadata,
                case when j.status = 'active' and a.lease_expires_at <= authority_now()
                    then 'queued' else j.status::text end as "status!",
                j.webhook_endpoint_id, j.max_attempts, j.attempt_counter as attempts, j.charged_attempts,
                j.admission_deadline, j.held_micros,
                (select coalesce(sum(amount_micros) filter (where kind::text like 'capture%'), 0)
                 from postings where job_id = j.id)::bigint as "captured_micros!",
                (select coalesce(sum(amount_micros) filter (where kind = 'release'), 0)
                 from postings where job_id = j.id)::bigint as "released_micros!",
                case when a.status = 'committing' or a.lease_expires_at > authority_now()
                    then a.status::text end as phase,
                case when a.lease_expires_at > authority_now() then a.percent end as percent,
                j.lane, (j.queue_key is not null) as "is_ready!", j.wake_at, j.failure_code, j.failure_message,
                encode(j.output_sha256, 'hex') as output_sha256, j.output_size_bytes,
                j.output_seconds, j.created_at, j.ended_at, j.files_expire_at, j.files_deleted_at
            from jobs j
            left join attempts a on a.job_id = j.id and a.ended_at is null
            "#
                + $condition,
            $($argument),+
        )
    };
}

impl Store {
    /// One job of `org`.
    pub async fn job(&self, org: OrgId, job: JobId) -> Result<Option<JobView>, StoreError> {
        Ok(self.jobs_by_id(vec![(org, job)]).await?.pop().flatten())
    }

    /// Jobs by their orgs and ids, in order; `None` where the org has no such job.
    pub async fn jobs_by_id(
        &self,
        asked: Vec<(OrgId, JobId)>,
    ) -> Result<Vec<Option<JobView>>, StoreError> {
        let ids: Vec<Uuid> = asked.iter().map(|(_, job)| job.0).collect();
        let found = self
            .read("jobs_by_id", move |mut conn| async move {
                select_jobs!("where j.id = any($1) and j.erased_at is null", &ids)
                    .fetch_all(&mut *conn)
                    .await
            })
            .await?;
        let found: HashMap<_, _> = found.into_iter().map(|job| (job.id, job)).collect();
        let of = |(org, job): &(OrgId, JobId)| {
            let found = found.get(&job.0).filter(|found| found.org_id == org.0);
            found.cloned()
        };
        Ok(asked.iter().map(of).collect())
    }

    /// Whether a request of this name has made a job of `org`.
    pub async fn is_key_taken(&self, org: OrgId, key: &str) -> Result<bool, StoreError> {
        let key = key.to_owned();
        self.read("is_key_taken", move |mut conn| async move {
            sqlx::query_scalar!(
                r#"-- is_key_taken
                select exists (select from idempotency_keys
                    where org_id = $1 and key = $2) as "taken!""#,
                org.0,
                key
            )
            .fetch_one(&mut *conn)
            .await
        })
        .await
    }

    /// The attempts of a job of `org`, in order; `None` without such a job.
    pub async fn attempts(
        &self,
        org: OrgId,
        job: JobId,
    ) -> Result<Option<Vec<AttemptView>>, StoreError> {
        self.read("attempts", move |mut conn| async move {
            let found = sqlx::query_scalar!(
                r#"-- attempts: job
                select exists (select from jobs where id = $1 and org_id = $2
                    and erased_at is null) as "found!""#,
                job.0,
                org.0
            )
            .fetch_one(&mut *conn)
            .await?;
            if !found {
                return Ok(None);
            }
            sqlx::query_as!(
                AttemptView,
                r#"-- attempts
                select a.id, a.attempt_number, a.device_id, d.name as device_name, a.lease_epoch,
                    case when a.ended_at is null and a.status <> 'committing'
                            and a.lease_expires_at <= authority_now()
                        then 'lost' else a.status::text end as "status!",
                    a.percent, a.charged, a.failure_code, a.failure_message, a.leased_at,
                    a.ended_at
                from attempts a join devices d on d.id = a.device_id
                where a.job_id = $1 order by a.attempt_number"#,
                job.0
            )
            .fetch_all(&mut *conn)
            .await
            .map(Some)
        })
        .await
    }

    /// Where the winning attempt's verified output is.
    pub async fn output(&self, org: OrgId, job: JobId) -> Result<OutputView, StoreError> {
        let grant = self.settings().grant.micros();
        self.read("output", move |mut conn| async move {
            let row = sqlx::query!(
                r#"-- output
                select status::text as "status!", output_key, output_size_bytes, service, params,
                    (output_key is not null and (files_deleted_at is not null
                        or files_expire_at <= authority_now())) as "gone!",
                    authority_now() + $3::bigint * interval '1 microsecond' as "link_expires_at!"
                from jobs where id = $1 and org_id = $2 and erased_at is null"#,
                job.0,
                org.0,
                grant
            )
            .fetch_optional(&mut *conn)
            .await?;
            Ok(match row {
                None => OutputView::NoJob,
                Some(row) if row.gone => OutputView::Gone,
                Some(row) => match (row.output_key, row.output_size_bytes) {
                    (Some(object_key), Some(size_bytes)) => OutputView::Ready {
                        object_key,
                        size_bytes,
                        service: row.service,
                        params: row.params,
                        link_expires_at: row.link_expires_at,
                    },
                    _ => OutputView::NotReady { status: row.status },
                },
            })
        })
        .await
    }
}
