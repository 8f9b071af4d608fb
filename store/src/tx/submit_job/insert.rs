//! The one statement that writes jobs, and all that comes into being with them.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::NewJob;
use crate::error::StoreError;
use crate::run::Tx;

/// A job to insert.
#[derive(Serialize)]
pub(super) struct Insert<'a> {
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

impl NewJob {
    /// The row of this job, whose inputs are stored so.
    pub(super) fn insert(&self, inputs: Value) -> Insert<'_> {
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
                .map(|mine| hex::encode(mine.fingerprint)),
        }
    }
}

/// Inserts jobs whose accounts are locked and cover them.
#[expect(clippy::too_many_lines, reason = "one statement")]
pub(super) async fn insert(tx: &mut Tx, inserts: &[Insert<'_>]) -> Result<(), StoreError> {
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
