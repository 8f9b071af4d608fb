//! A job comes into being, with its hold.
//!
//! Locks: the org's ledger account. Checks: the inputs are the org's own and complete; the account
//! covers the hold. Writes: job, hold and posting, all or nothing. The price terms are frozen here.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{JobId, OrgId, UploadId};
use fencepost_domain::ledger::PriceTerms;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::StoreError;
use crate::fence::hex_bytes;
use crate::run::{Store, Transaction, Tx};

/// How urgent a job is: a head start in the queue, so that nothing waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// No head start.
    Low,
    /// Ten minutes.
    #[default]
    Normal,
    /// Thirty minutes.
    High,
}

impl Priority {
    /// Reads `low`, `normal` or `high`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "low" => Some(Self::Low),
            "normal" => Some(Self::Normal),
            "high" => Some(Self::High),
            _ => None,
        }
    }

    fn head_start_micros(self) -> i64 {
        let minutes = match self {
            Self::Low => 0,
            Self::Normal => 10,
            Self::High => 30,
        };
        minutes * 60 * 1_000_000
    }
}

/// A checked request for a job.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id, made by the caller, so that a second run is the same job.
    pub id: JobId,
    /// Whose it is.
    pub org: OrgId,
    /// The service.
    pub service: String,
    /// Its parameters, checked.
    pub params: Value,
    /// The service's name of each input, and the upload behind it.
    pub inputs: Vec<(String, UploadId)>,
    /// The buyer's own words.
    pub metadata: Value,
    /// What a device must have (`domain::matcher::lane`).
    pub lane: String,
    /// The budget of charged attempts, 1 to 10.
    pub max_attempts: i32,
    /// From then on it is not started again.
    pub deadline: LeaseDuration,
    /// Head start.
    pub priority: Priority,
    /// The longest output, in seconds.
    pub max_output_seconds: u32,
    /// The longest run of one attempt.
    pub max_run: LeaseDuration,
    /// The price.
    pub terms: PriceTerms,
}

/// The answer to a submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The job is queued.
    Queued {
        /// What is held for it.
        held_micros: i64,
    },
    /// The account does not cover the hold.
    InsufficientCredit {
        /// What would be held.
        needed_micros: i64,
        /// What there is.
        available_micros: i64,
    },
    /// An input is not there (or not the org's).
    UnknownUpload {
        /// The input.
        input: String,
    },
    /// An input was not sent completely yet.
    IncompleteUpload {
        /// The input.
        input: String,
    },
}

impl Store {
    /// Creates a job and holds its price.
    pub async fn submit_job(&self, job: NewJob) -> Result<Submitted, StoreError> {
        self.execute(SubmitJob { job }).await
    }
}

struct SubmitJob {
    job: NewJob,
}

impl Transaction for SubmitJob {
    const NAME: &'static str = "submit_job";
    type Output = Submitted;

    async fn run(&self, tx: &mut Tx) -> Result<Submitted, StoreError> {
        let held_micros = self.job.terms.hold_micros(self.job.max_output_seconds);
        if tx.rerun && self.exists(tx).await? {
            return Ok(Submitted::Queued { held_micros });
        }
        let inputs = match self.resolve_inputs(tx).await? {
            Ok(inputs) => inputs,
            Err(refusal) => return Ok(refusal),
        };
        let (inserted, available_micros) = self.insert(tx, &inputs, held_micros).await?;
        if inserted {
            Ok(Submitted::Queued { held_micros })
        } else {
            Ok(Submitted::InsufficientCredit {
                needed_micros: held_micros,
                available_micros,
            })
        }
    }
}

impl SubmitJob {
    async fn exists(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        // An earlier run that is still committing holds this lock: wait for it, then look.
        sqlx::query!(
            r#"-- submit_job: wait
            select from org_accounts where org_id = $1 for no key update"#,
            self.job.org.0
        )
        .execute(&mut **tx)
        .await?;
        let found = sqlx::query_scalar!(
            r#"-- submit_job: find
            select exists (select from jobs where id = $1) as "found!""#,
            self.job.id.0
        );
        Ok(found.fetch_one(&mut **tx).await?)
    }

    /// The inputs as they are stored with the job. Uploads do not change once they are complete.
    async fn resolve_inputs(&self, tx: &mut Tx) -> Result<Result<Value, Submitted>, StoreError> {
        let ids: Vec<Uuid> = self.job.inputs.iter().map(|(_, upload)| upload.0).collect();
        let rows = sqlx::query!(
            r#"-- submit_job: inputs
            select id, object_key, sha256, size_bytes from uploads
            where id = any($1) and org_id = $2 for key share"#,
            &ids,
            self.job.org.0
        )
        .fetch_all(&mut **tx)
        .await?;
        let mut inputs = Vec::new();
        for (name, upload) in &self.job.inputs {
            let Some(row) = rows.iter().find(|row| row.id == upload.0) else {
                return Ok(Err(Submitted::UnknownUpload {
                    input: name.clone(),
                }));
            };
            let (Some(sha256), Some(size_bytes)) = (&row.sha256, row.size_bytes) else {
                return Ok(Err(Submitted::IncompleteUpload {
                    input: name.clone(),
                }));
            };
            inputs.push(json!({
                "name": name,
                "object_key": row.object_key,
                "sha256": hex_bytes(sha256),
                "size_bytes": size_bytes,
            }));
        }
        Ok(Ok(Value::Array(inputs)))
    }

    #[expect(clippy::too_many_lines, reason = "one statement")]
    async fn insert(
        &self,
        tx: &mut Tx,
        inputs: &Value,
        held_micros: i64,
    ) -> Result<(bool, i64), StoreError> {
        let job = &self.job;
        let row = sqlx::query!(
            r#"-- submit_job: insert
            with account as materialized (
                select org_id, available_micros from org_accounts where org_id = $2
                for no key update
            ), clock as materialized (
                select authority_now() as now from (select count(*) from account) is_locked
            ), created as (
                insert into jobs (id, org_id, service, params, inputs, metadata, lane,
                    max_output_seconds, max_run_micros, max_attempts, admission_deadline,
                    base_micros, per_minute_micros, provider_share_bps, held_micros,
                    order_key, queue_key, created_at)
                select $1, account.org_id, $3, $4, $5, $6, $7, $8, $9, $10,
                    clock.now + $11::bigint * interval '1 microsecond', $12, $13, $14, $15,
                    clock.now - $16::bigint * interval '1 microsecond',
                    clock.now - $16::bigint * interval '1 microsecond', clock.now
                from account, clock where account.available_micros >= $15
                returning id, org_id
            ), held as (
                update org_accounts o set available_micros = o.available_micros - $15,
                    held_micros = o.held_micros + $15
                from created where o.org_id = created.org_id and $15 > 0
                returning 1
            ), posted as (
                insert into postings
                    (kind, debit, credit, amount_micros, org_id, job_id, created_at)
                select 'hold', 'org_available', 'org_held', $15, org_id, id, clock.now
                from created, clock where $15 > 0
                returning 1
            )
            select (select count(*) from created) as "created!",
                (select count(*) from held) as "held!", (select count(*) from posted) as "posted!",
                account.available_micros
            from account"#,
            job.id.0,
            job.org.0,
            job.service,
            job.params,
            inputs,
            job.metadata,
            job.lane,
            i32::try_from(job.max_output_seconds).unwrap_or(i32::MAX),
            job.max_run.micros(),
            job.max_attempts,
            job.deadline.micros(),
            job.terms.base_micros,
            job.terms.per_minute_micros,
            job.terms.provider_share_bps,
            held_micros,
            job.priority.head_start_micros()
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(row) = row else {
            let what = format!("org {} has no account", job.org);
            return Err(StoreError::inconsistent("org_accounts", what));
        };
        let money = i64::from(held_micros > 0);
        match (row.created, row.held, row.posted) {
            (1, held, posted) if held == money && posted == money => {
                Ok((true, row.available_micros))
            }
            (0, 0, 0) => Ok((false, row.available_micros)),
            other => {
                let what = format!("submitting {} wrote {other:?}", job.id);
                Err(StoreError::inconsistent("jobs", what))
            }
        }
    }
}
