//! Jobs come into being, each with its hold.
//!
//! Locks: the orgs' ledger accounts, by id; whoever holds one also decides about the org's
//! idempotency keys, so two requests with one key never meet. Checks: the key is new (or the request
//! the same as the one that it made: then its job is the answer); the inputs are the org's own and
//! complete; the account covers the hold, in the order of the jobs. Writes: jobs, keys, holds and
//! postings, all or nothing. A refused request leaves no key. The price terms are frozen here.

use std::collections::{HashMap, HashSet};

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{EndpointId, JobId, OrgId, UploadId};
use fencepost_domain::ledger::PriceTerms;
use serde::Serialize;
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
    /// An endpoint of the org that is told of this job whatever it is subscribed to.
    pub webhook: Option<EndpointId>,
    /// The buyer's word for the request, so that a repeat of it is the same job.
    pub idempotency: Option<IdempotencyKey>,
}

/// A buyer's word for a request, with what the request meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// 1 to 255 characters.
    pub key: String,
    /// SHA-256 of the request's meaning.
    pub fingerprint: [u8; 32],
}

/// The answer to a submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The job is queued.
    Queued {
        /// What is held for it.
        held_micros: i64,
    },
    /// The same request made this job before; nothing was changed.
    Replayed {
        /// The job.
        job: JobId,
    },
    /// Another request was made with this key.
    KeyReused,
    /// The account does not cover the hold.
    InsufficientCredit {
        /// What would be held.
        needed_micros: i64,
        /// What there is.
        available_micros: i64,
    },
    /// The org uses as much as it may.
    QuotaReached(QuotaReached),
    /// The webhook endpoint is not there (or not the org's).
    UnknownEndpoint,
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

/// A quota that leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaReached {
    /// `open_jobs` or `stored_bytes`.
    pub quota: &'static str,
    /// How much is used.
    pub used: i64,
    /// The most.
    pub most: i64,
}

impl Store {
    /// Creates a job and holds its price.
    pub async fn submit_job(&self, job: NewJob) -> Result<Submitted, StoreError> {
        let mut answers = self.submit_jobs(vec![job]).await?;
        answers
            .pop()
            .ok_or_else(|| StoreError::inconsistent("jobs", "a job was not answered"))
    }

    /// Creates jobs and holds their prices; one answer for each, in order. Where an account does
    /// not cover all of them, it is the first ones that it covers.
    pub async fn submit_jobs(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>, StoreError> {
        self.execute(SubmitJob { jobs }).await
    }
}

pub(super) struct SubmitJob {
    pub(super) jobs: Vec<NewJob>,
}

/// A job to insert.
#[derive(Serialize)]
struct Insert<'a> {
    id: Uuid,
    org_id: Uuid,
    service: &'a str,
    params: &'a Value,
    inputs: Value,
    metadata: &'a Value,
    lane: &'a str,
    max_output_seconds: i32,
    max_run_micros: i64,
    max_attempts: i32,
    deadline_micros: i64,
    base_micros: i64,
    per_minute_micros: i64,
    provider_share_bps: i32,
    held_micros: i64,
    head_start_micros: i64,
    uploads: Vec<Uuid>,
    webhook_endpoint_id: Option<Uuid>,
    key: Option<&'a str>,
    fingerprint: Option<String>,
}

/// An upload as it is stored with a job, if it is complete.
pub(super) struct Input {
    org: Uuid,
    complete: Option<(String, String, i64)>,
}

impl Transaction for SubmitJob {
    const NAME: &'static str = "submit_job";
    type Output = Vec<Submitted>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Submitted>, StoreError> {
        let mut accounts = self.lock_accounts(tx).await?;
        // An earlier run that is still committing holds those locks: now it can be seen.
        let stored = if tx.rerun {
            self.find(tx).await?
        } else {
            HashSet::new()
        };
        let mut keys = self.find_keys(tx).await?;
        let inputs = self.find_inputs(tx).await?;
        let endpoints = self.find_endpoints(tx).await?;
        let mut answers = Vec::with_capacity(self.jobs.len());
        let mut inserts = Vec::new();
        for job in &self.jobs {
            let held_micros = job.held_micros();
            if stored.contains(&job.id.0) {
                answers.push(Submitted::Queued { held_micros });
                continue;
            }
            if let Some(answer) = job.known(&keys) {
                answers.push(answer);
                continue;
            }
            if job
                .webhook
                .is_some_and(|named| !endpoints.contains(&(job.org.0, named.0)))
            {
                answers.push(Submitted::UnknownEndpoint);
                continue;
            }
            match job.admit(&inputs, &mut accounts)? {
                Ok(inputs) => {
                    inserts.push(job.insert(inputs));
                    if let Some(mine) = &job.idempotency {
                        let named = (job.org.0, mine.key.clone());
                        keys.insert(named, (mine.fingerprint.to_vec(), job.id));
                    }
                    answers.push(Submitted::Queued { held_micros });
                }
                Err(refusal) => answers.push(refusal),
            }
        }
        insert(tx, &inserts).await?;
        Ok(answers)
    }
}

/// What an org can spend, uses and may use.
pub(super) struct Account {
    pub(super) available_micros: i64,
    pub(super) open_jobs: i64,
    pub(super) max_open_jobs: i64,
    pub(super) stored_bytes: i64,
    pub(super) max_stored_bytes: i64,
}

impl Account {
    /// The quota that leaves no room for another job, if one does.
    pub(super) fn is_full(&self) -> Option<QuotaReached> {
        let quotas = [
            ("open_jobs", self.open_jobs, self.max_open_jobs),
            ("stored_bytes", self.stored_bytes, self.max_stored_bytes),
        ];
        let full = quotas.into_iter().find(|(_, used, most)| used >= most);
        full.map(|(quota, used, most)| QuotaReached { quota, used, most })
    }
}

/// Keys that are taken: whose and which, and what they mean.
type Keys = HashMap<(Uuid, String), (Vec<u8>, JobId)>;

impl NewJob {
    /// The answer if the job's key is taken.
    fn known(&self, keys: &Keys) -> Option<Submitted> {
        let mine = self.idempotency.as_ref()?;
        let (fingerprint, job) = keys.get(&(self.org.0, mine.key.clone()))?;
        Some(if fingerprint[..] == mine.fingerprint[..] {
            Submitted::Replayed { job: *job }
        } else {
            Submitted::KeyReused
        })
    }

    pub(super) fn held_micros(&self) -> i64 {
        self.terms.hold_micros(self.max_output_seconds)
    }

    /// The inputs as they are stored with the job, its hold and its place taken off the account; or why
    /// not.
    fn admit(
        &self,
        found: &HashMap<Uuid, Input>,
        accounts: &mut HashMap<Uuid, Account>,
    ) -> Result<Result<Value, Submitted>, StoreError> {
        let inputs = match self.resolve(found) {
            Ok(inputs) => inputs,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let account = accounts.get_mut(&self.org.0).ok_or_else(|| {
            StoreError::inconsistent("org_accounts", format!("org {} has no account", self.org))
        })?;
        if let Some(full) = account.is_full() {
            return Ok(Err(Submitted::QuotaReached(full)));
        }
        let (needed_micros, available_micros) = (self.held_micros(), account.available_micros);
        if available_micros < needed_micros {
            return Ok(Err(Submitted::InsufficientCredit {
                needed_micros,
                available_micros,
            }));
        }
        account.available_micros -= needed_micros;
        account.open_jobs += 1;
        Ok(Ok(inputs))
    }

    pub(super) fn resolve(&self, found: &HashMap<Uuid, Input>) -> Result<Value, Submitted> {
        let resolved = self.inputs.iter().map(|(name, upload)| {
            let input = || name.clone();
            let known = found
                .get(&upload.0)
                .filter(|known| known.org == self.org.0)
                .ok_or_else(|| Submitted::UnknownUpload { input: input() })?;
            let (object_key, sha256, size_bytes) = known
                .complete
                .as_ref()
                .ok_or_else(|| Submitted::IncompleteUpload { input: input() })?;
            Ok(json!({
                "name": name,
                "object_key": object_key,
                "sha256": sha256,
                "size_bytes": size_bytes,
            }))
        });
        resolved.collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    fn distinct_uploads(&self) -> Vec<Uuid> {
        let uploads: HashSet<Uuid> = self.inputs.iter().map(|(_, upload)| upload.0).collect();
        uploads.into_iter().collect()
    }

    fn insert(&self, inputs: Value) -> Insert<'_> {
        Insert {
            id: self.id.0,
            org_id: self.org.0,
            service: &self.service,
            params: &self.params,
            inputs,
            metadata: &self.metadata,
            lane: &self.lane,
            max_output_seconds: i32::try_from(self.max_output_seconds).unwrap_or(i32::MAX),
            max_run_micros: self.max_run.micros(),
            max_attempts: self.max_attempts,
            deadline_micros: self.deadline.micros(),
            base_micros: self.terms.base_micros,
            per_minute_micros: self.terms.per_minute_micros,
            provider_share_bps: self.terms.provider_share_bps,
            held_micros: self.held_micros(),
            head_start_micros: self.priority.head_start_micros(),
            uploads: self.distinct_uploads(),
            webhook_endpoint_id: self.webhook.map(|endpoint| endpoint.0),
            key: self.idempotency.as_ref().map(|mine| mine.key.as_str()),
            fingerprint: self
                .idempotency
                .as_ref()
                .map(|mine| hex_bytes(&mine.fingerprint)),
        }
    }
}

impl SubmitJob {
    /// What each org can spend and use.
    async fn lock_accounts(&self, tx: &mut Tx) -> Result<HashMap<Uuid, Account>, StoreError> {
        let orgs: Vec<Uuid> = self.jobs.iter().map(|job| job.org.0).collect();
        let quotas = tx.settings.quotas;
        let rows = sqlx::query!(
            r#"-- submit_job: lock
            select org_id, available_micros, open_jobs, stored_bytes,
                coalesce(max_open_jobs, $2) as "max_open_jobs!",
                coalesce(max_stored_bytes, $3) as "max_stored_bytes!"
            from org_accounts where org_id = any($1)
            order by org_id for no key update"#,
            &orgs,
            quotas.open_jobs,
            quotas.stored_bytes
        )
        .fetch_all(&mut **tx)
        .await?;
        tx.point("locked").await;
        let accounts = rows.into_iter().map(|row| {
            let account = Account {
                available_micros: row.available_micros,
                open_jobs: row.open_jobs,
                max_open_jobs: row.max_open_jobs,
                stored_bytes: row.stored_bytes,
                max_stored_bytes: row.max_stored_bytes,
            };
            (row.org_id, account)
        });
        Ok(accounts.collect())
    }

    async fn find(&self, tx: &mut Tx) -> Result<HashSet<Uuid>, StoreError> {
        let ids: Vec<Uuid> = self.jobs.iter().map(|job| job.id.0).collect();
        let found = sqlx::query_scalar!(
            r#"-- submit_job: find
            select id from jobs where id = any($1)"#,
            &ids
        );
        Ok(found.fetch_all(&mut **tx).await?.into_iter().collect())
    }

    /// The keys of the jobs that are taken. Their orgs' accounts are locked, so none comes up now.
    async fn find_keys(&self, tx: &mut Tx) -> Result<Keys, StoreError> {
        let mine = |job: &NewJob| Some((job.org.0, job.idempotency.as_ref()?.key.clone()));
        let (orgs, keys): (Vec<Uuid>, Vec<String>) = self.jobs.iter().filter_map(mine).unzip();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = sqlx::query!(
            r#"-- submit_job: keys
            select k.org_id, k.key, k.fingerprint, k.job_id from idempotency_keys k
            where (k.org_id, k.key) in (select * from unnest($1::uuid[], $2::text[]))"#,
            &orgs,
            &keys
        )
        .fetch_all(&mut **tx)
        .await?;
        let taken = rows
            .into_iter()
            .map(|row| ((row.org_id, row.key), (row.fingerprint, JobId(row.job_id))));
        Ok(taken.collect())
    }

    /// The endpoints that the jobs name, each with its org. One that is deleted meanwhile is told
    /// nothing.
    async fn find_endpoints(&self, tx: &mut Tx) -> Result<HashSet<(Uuid, Uuid)>, StoreError> {
        let named = self.jobs.iter().filter_map(|job| job.webhook);
        let ids: Vec<Uuid> = named.map(|endpoint| endpoint.0).collect();
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let rows = sqlx::query!(
            r#"-- submit_job: endpoints
            select org_id, id from webhook_endpoints where id = any($1) and deleted_at is null"#,
            &ids
        );
        let rows = rows.fetch_all(&mut **tx).await?.into_iter();
        Ok(rows.map(|row| (row.org_id, row.id)).collect())
    }

    /// The uploads that the jobs name, but for those that were given up. They do not change once they are
    /// complete, and whoever gives one up holds its org's account, as we do.
    pub(super) async fn find_inputs(
        &self,
        tx: &mut Tx,
    ) -> Result<HashMap<Uuid, Input>, StoreError> {
        let uploads = self.jobs.iter().flat_map(|job| &job.inputs);
        let ids: Vec<Uuid> = uploads.map(|(_, upload)| upload.0).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = sqlx::query!(
            r#"-- submit_job: inputs
            select id, org_id, object_key, sha256, size_bytes from uploads
            where id = any($1) and deleted_at is null order by id for key share"#,
            &ids
        )
        .fetch_all(&mut **tx)
        .await?;
        let inputs = rows.into_iter().map(|row| {
            let complete = row.sha256.zip(row.size_bytes);
            let input = Input {
                org: row.org_id,
                complete: complete.map(|(sha256, size)| (row.object_key, hex_bytes(&sha256), size)),
            };
            (row.id, input)
        });
        Ok(inputs.collect())
    }
}

/// Inserts jobs whose accounts are locked and cover them.
#[expect(clippy::too_many_lines, reason = "one statement")]
async fn insert(tx: &mut Tx, inserts: &[Insert<'_>]) -> Result<(), StoreError> {
    if inserts.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(inserts)
        .map_err(|error| StoreError::inconsistent("jobs", error.to_string()))?;
    let row = sqlx::query!(
        r#"-- submit_job: insert
        with clock as materialized (
            select authority_now() as now
        ), created as (
            insert into jobs (id, org_id, service, params, inputs, metadata, lane,
                max_output_seconds, max_run_micros, max_attempts, admission_deadline,
                base_micros, per_minute_micros, provider_share_bps, held_micros,
                order_key, queue_key, created_at, webhook_endpoint_id)
            select i.id, i.org_id, i.service, i.params, i.inputs, i.metadata, i.lane,
                i.max_output_seconds, i.max_run_micros, i.max_attempts,
                clock.now + i.deadline_micros * interval '1 microsecond',
                i.base_micros, i.per_minute_micros, i.provider_share_bps, i.held_micros,
                clock.now - i.head_start_micros * interval '1 microsecond',
                clock.now - i.head_start_micros * interval '1 microsecond', clock.now,
                i.webhook_endpoint_id
            from clock, jsonb_to_recordset($1) as i(
                id uuid, org_id uuid, service text, params jsonb, inputs jsonb, metadata jsonb,
                lane text, max_output_seconds int, max_run_micros bigint, max_attempts int,
                deadline_micros bigint, base_micros bigint, per_minute_micros bigint,
                provider_share_bps int, held_micros bigint, head_start_micros bigint,
                webhook_endpoint_id uuid)
            returning id, org_id, held_micros
        ), holds as (
            select org_id, sum(held_micros)::bigint as micros, count(*) as jobs from created
            group by org_id
        ), held as (
            update org_accounts o set available_micros = o.available_micros - h.micros,
                held_micros = o.held_micros + h.micros, open_jobs = o.open_jobs + h.jobs
            from holds h where o.org_id = h.org_id and o.available_micros >= h.micros
            returning h.jobs
        ), posted as (
            insert into postings (kind, debit, credit, amount_micros, org_id, job_id, created_at)
            select 'hold', 'org_available', 'org_held', held_micros, org_id, id, clock.now
            from created, clock where held_micros > 0
            returning 1
        ), reading as (
            insert into job_inputs (upload_id, job_id)
            select u.id::uuid, created.id
            from created join jsonb_to_recordset($1) as i(id uuid, uploads jsonb)
                on i.id = created.id
                cross join jsonb_array_elements_text(i.uploads) u(id)
            returning 1
        ), named as (
            insert into idempotency_keys (org_id, key, fingerprint, job_id)
            select i.org_id, i.key, decode(i.fingerprint, 'hex'), created.id
            from created join jsonb_to_recordset($1) as i(
                id uuid, org_id uuid, key text, fingerprint text) on i.id = created.id
            where i.key is not null
            returning 1
        ), worded as (
            insert into job_words (org_id, word, job_id)
            select i.org_id, job_word(m.key, m.value #>> '{}'), created.id
            from created join jsonb_to_recordset($1) as i(
                id uuid, org_id uuid, metadata jsonb) on i.id = created.id
                cross join lateral jsonb_each(i.metadata) m
            where jsonb_typeof(m.value) in ('string', 'number', 'boolean')
        )
        select (select count(*) from created) as "created!",
            (select count(*) from named) as "named!",
            (select count(*) from reading) as "reading!",
            (select coalesce(sum(jobs), 0)::bigint from held) as "held!",
            (select count(*) from posted) as "posted!""#,
        input
    )
    .fetch_one(&mut **tx)
    .await?;
    let written = (row.created, row.named, row.reading, row.held, row.posted);
    all_written(inserts, written)
}

/// How many jobs, keys, inputs, holds and postings were written.
type Written = (i64, i64, i64, i64, i64);

/// All or nothing: as many jobs, keys, holds and postings as there have to be.
fn all_written(inserts: &[Insert<'_>], written: Written) -> Result<(), StoreError> {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let paid = count(inserts.iter().filter(|one| one.held_micros > 0).count());
    let named = count(inserts.iter().filter(|one| one.key.is_some()).count());
    let reading = count(inserts.iter().map(|one| one.uploads.len()).sum());
    let all = count(inserts.len());
    let expected = (all, named, reading, all, paid);
    if written == expected {
        Ok(())
    } else {
        let what = format!("submitting: expected {expected:?}, wrote {written:?}");
        Err(StoreError::inconsistent("jobs", what))
    }
}
