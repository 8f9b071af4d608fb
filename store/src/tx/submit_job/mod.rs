//! Jobs come into being, each with its hold.
//!
//! Locks: the orgs' ledger accounts, by id; whoever holds one also decides about the org's
//! idempotency keys, so two requests with one key never meet. Checks: the key is new (or the request
//! the same as the one that it made: then its job is the answer); the uploads are the org's own and
//! complete (what is elsewhere was judged before); the account covers the hold, in the order of the
//! jobs. Writes: jobs, keys, holds and postings, all or nothing. A refused request leaves no key. The
//! price terms are frozen here.

mod insert;
mod order;

use std::collections::{HashMap, HashSet};

use fencepost_domain::ids::{JobId, UploadId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use insert::insert;
pub use order::{Elsewhere, IdempotencyKey, NewInput, NewJob, Priority, QuotaReached, Submitted};

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
            if !job.names_one_of(&endpoints) {
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

    /// Whether the endpoint that it names, if any, is one of its org's.
    pub(super) fn names_one_of(&self, endpoints: &HashSet<(Uuid, Uuid)>) -> bool {
        self.webhook
            .is_none_or(|named| endpoints.contains(&(self.org.0, named.0)))
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
        let resolved = self.inputs.iter().map(|(name, input)| match input {
            NewInput::Upload(upload) => self.resolve_upload(name, *upload, found),
            NewInput::Elsewhere(elsewhere) => Ok(json!({
                "name": name,
                "host": elsewhere.host,
                "sealed_url": elsewhere.url.to_hex(),
                "sha256": elsewhere.sha256,
                "size_bytes": elsewhere.size_bytes,
            })),
        });
        resolved.collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    fn resolve_upload(
        &self,
        name: &str,
        upload: UploadId,
        found: &HashMap<Uuid, Input>,
    ) -> Result<Value, Submitted> {
        let input = || name.to_owned();
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
    }

    fn distinct_uploads(&self) -> Vec<Uuid> {
        let uploads: HashSet<Uuid> = self.uploads().collect();
        uploads.into_iter().collect()
    }

    fn uploads(&self) -> impl Iterator<Item = Uuid> {
        self.inputs.iter().filter_map(|(_, input)| match input {
            NewInput::Upload(upload) => Some(upload.0),
            NewInput::Elsewhere(_) => None,
        })
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
    pub(super) async fn find_endpoints(
        &self,
        tx: &mut Tx,
    ) -> Result<HashSet<(Uuid, Uuid)>, StoreError> {
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
        let ids: Vec<Uuid> = self.jobs.iter().flat_map(NewJob::uploads).collect();
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
                complete: complete
                    .map(|(sha256, size)| (row.object_key, hex::encode(&sha256), size)),
            };
            (row.id, input)
        });
        Ok(inputs.collect())
    }
}
