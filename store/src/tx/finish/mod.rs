//! The only statement that ends attempts and jobs: status, budget, money and event, all or nothing.
//!
//! The event is addressed to the webhook endpoints that are subscribed at this moment, without
//! touching their rows.
//!
//! Every path leads here (settle, fail, release, stop, expiry, return, cancel, deadline), with rows
//! that are already locked and an [ending](fencepost_domain::ending::Ending) that the domain decided.
//! The facts that were judged are repeated in the `WHERE`; fewer rows than were judged is an
//! inconsistency.
//!
//! What a job must not outlive is seen to by the database itself (the trigger
//! `addresses_are_forgotten`).
//!
//! Locks: jobs and attempts are the caller's; the orgs' ledger accounts are taken here, by id.

mod end;

use time::OffsetDateTime;

pub(super) use self::end::{Finish, Published};
use crate::error::StoreError;
use crate::finalized::Ended;
use crate::run::Tx;

/// How many rows a statement changed, or should have.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    attempts: usize,
    jobs: usize,
    postings: usize,
    events: usize,
}

impl Written {
    fn expected(ends: &[Finish]) -> Self {
        Self {
            attempts: ends.iter().filter(|end| end.attempt.is_some()).count(),
            jobs: ends.len(),
            postings: ends.iter().map(|end| end.job.postings()).sum(),
            events: ends.iter().filter(|end| end.job.terminal).count(),
        }
    }
}

/// Writes ends. The rows must be locked by this transaction, and `now` read after that.
pub(super) async fn finish(
    tx: &mut Tx,
    now: OffsetDateTime,
    ends: Vec<Finish>,
) -> Result<Vec<Ended>, StoreError> {
    if ends.is_empty() {
        return Ok(Vec::new());
    }
    let expected = Written::expected(&ends);
    let written = write(tx, now, &ends).await?;
    if written != expected {
        let ids: Vec<_> = ends.iter().map(|end| end.job.id).collect();
        let what = format!("ending jobs {ids:?}: expected {expected:?}, wrote {written:?}");
        return Err(StoreError::inconsistent("attempts", what));
    }
    Ok(ends.into_iter().filter_map(|end| end.ended).collect())
}

#[expect(
    clippy::too_many_lines,
    reason = "one statement, so that it is all or nothing"
)]
async fn write(tx: &mut Tx, now: OffsetDateTime, ends: &[Finish]) -> Result<Written, StoreError> {
    let input = serde_json::to_value(ends)
        .map_err(|error| StoreError::inconsistent("attempts", error.to_string()))?;
    let longest_transfer = tx.settings.longest_transfer.micros();
    let files_kept = tx.settings.retention.files_micros();
    let row = sqlx::query!(
        r#"-- finish
        with input as materialized (
            select * from jsonb_to_recordset($1) as i(attempt jsonb, job jsonb)
        ), attempt_ends as materialized (
            select e.* from input, jsonb_to_record(input.attempt) as e(
                attempt_id uuid, job_id uuid, device_id uuid, epoch bigint, digest text,
                "from" text[], must_be_live boolean, unpresented_claim uuid,
                verification_epoch bigint, status text,
                new_epoch bigint, charged boolean, returned boolean, failure_code text,
                failure_message text,
                final_operation text, final_epoch bigint, final_digest text, final_content text)
            where input.attempt <> 'null'
        ), job_ends as materialized (
            select e.*, nullif(input.attempt -> 'attempt_id', 'null') #>> '{}' as attempt_id
            from input, jsonb_to_record(input.job) as e(
                id uuid, "from" text, status text, terminal boolean, delay_micros bigint,
                charged int, returned int, bumped int, failure_code text, failure_message text,
                provider_id uuid, provider_micros bigint, platform_micros bigint,
                released_micros bigint, settled_micros bigint, event_id uuid, output jsonb)
        ), ended as (
            update attempts a set
                status = e.status::attempt_status, ended_at = $2, lease_expires_at = null,
                check_after = null, verify_until = null,
                -- nobody can write its objects any more then
                collect_after = greatest(a.grant_expires_at, $2)
                    + $3::bigint * interval '1 microsecond',
                lease_epoch = coalesce(e.new_epoch, a.lease_epoch), charged = e.charged,
                returned = e.returned,
                failure_code = e.failure_code, failure_message = e.failure_message,
                -- whoever reports a failure with the token has had the offer
                accepted_at = case when e.status = 'failed'
                    then coalesce(a.accepted_at, $2) else a.accepted_at end,
                final_operation = coalesce(a.final_operation, e.final_operation),
                final_epoch = coalesce(a.final_epoch, e.final_epoch),
                final_digest = coalesce(a.final_digest, decode(e.final_digest, 'hex')),
                final_content = coalesce(a.final_content, decode(e.final_content, 'hex'))
            from attempt_ends e
            where a.id = e.attempt_id and a.ended_at is null
                -- the fence again: who, what, which lease, in which status, still in time
                and a.job_id = e.job_id and a.device_id = e.device_id and a.lease_epoch = e.epoch
                and (e.digest is null or a.token_digest = decode(e.digest, 'hex'))
                and a.status::text = any(e."from")
                and (not e.must_be_live or a.lease_expires_at > $2)
                and (e.unpresented_claim is null or a.unpresented_claim = e.unpresented_claim)
                and (e.verification_epoch is null or a.verification_epoch = e.verification_epoch)
            returning a.id
        ), moved as (
            update jobs j set
                status = e.status::job_status,
                queue_key = case when e.status = 'queued' and e.delay_micros = 0
                    then j.order_key end,
                wake_at = case when e.status = 'queued' and e.delay_micros > 0
                    then $2 + e.delay_micros * interval '1 microsecond' end,
                epoch_counter = j.epoch_counter + e.bumped,
                charged_attempts = j.charged_attempts + e.charged,
                returned_offers = j.returned_offers + e.returned,
                event_counter = j.event_counter + e.terminal::int,
                cancel_requested_at = case when e.status = 'cancelled'
                    then coalesce(j.cancel_requested_at, $2) else j.cancel_requested_at end,
                failure_code = e.failure_code, failure_message = e.failure_message,
                winning_attempt_id = (e.output ->> 'attempt_id')::uuid,
                output_key = e.output ->> 'object_key',
                output_sha256 = decode(e.output ->> 'sha256', 'hex'),
                output_size_bytes = (e.output ->> 'size_bytes')::bigint,
                output_seconds = (e.output ->> 'seconds')::double precision,
                -- the job is locked: no artifact comes any more
                artifact_bytes = (select coalesce(sum(f.size_bytes), 0)::bigint
                    from attempt_artifacts f
                    where f.attempt_id = (e.output ->> 'attempt_id')::uuid),
                ended_at = case when e.terminal then $2 end,
                files_expire_at = case when e.terminal
                    then $2 + $4::bigint * interval '1 microsecond' end
            from job_ends e
            where j.id = e.id and j.status = e."from"::job_status
                and (e.attempt_id is null
                    or e.attempt_id::uuid in (select id from ended))
            returning j.id, j.org_id, j.event_counter, j.status, j.failure_code, j.service,
                coalesce(j.output_size_bytes, 0) + j.artifact_bytes as stored_bytes,
                j.webhook_endpoint_id,
                e.terminal, e.event_id, e.provider_id, e.provider_micros, e.platform_micros,
                e.released_micros, e.settled_micros
        ), accounts as materialized (
            select org_id from org_accounts
            where org_id in (select org_id from moved where terminal)
            order by org_id for no key update
        ), settled as (
            update org_accounts o set
                held_micros = o.held_micros - s.settled,
                available_micros = o.available_micros + s.released,
                open_jobs = o.open_jobs - s.jobs, stored_bytes = o.stored_bytes + s.bytes
            from (select org_id, sum(settled_micros)::bigint as settled,
                      sum(released_micros)::bigint as released, count(*) as jobs,
                      sum(stored_bytes)::bigint as bytes
                  from moved where terminal group by org_id) s
            where o.org_id = s.org_id and (select count(*) from accounts) > 0
        ), posted as (
            insert into postings
                (kind, debit, credit, amount_micros, org_id, job_id, provider_id, created_at)
            select p.kind::posting_kind, 'org_held', p.credit::ledger_account, p.micros,
                moved.org_id, moved.id, p.provider_id, $2
            from moved, lateral (values
                ('capture_provider', 'provider', moved.provider_micros, moved.provider_id),
                ('capture_platform', 'platform', moved.platform_micros, null),
                ('release', 'org_available', moved.released_micros, null)
            ) as p(kind, credit, micros, provider_id)
            where p.micros > 0
            returning 1
        ), told as (
            insert into outbox (id, org_id, job_id, seq, kind, terminal, body, created_at)
            select event_id, org_id, id, event_counter, 'job.' || status, true,
                jsonb_build_object('job_id', id, 'seq', event_counter, 'status', status,
                    'service', service, 'failure_code', failure_code, 'at', $2::timestamptz), $2
            from moved where terminal
            returning id, org_id, job_id, kind
        ), addressed as (
            -- whoever is subscribed now; an endpoint that is switched off may ask for it later
            insert into webhook_deliveries (endpoint_id, event_id, state, next_at, created_at)
            select e.id, told.id, case when e.enabled then 'pending' else 'held' end,
                case when e.enabled then $2 end, $2
            from told join moved on moved.id = told.job_id
                join webhook_endpoints e on e.org_id = told.org_id and e.deleted_at is null
                    and (told.kind = any(e.event_types) or e.id = moved.webhook_endpoint_id)
        )
        select (select count(*) from ended) as "attempts!", (select count(*) from moved) as "jobs!",
            (select count(*) from posted) as "postings!", (select count(*) from told) as "events!""#,
        input,
        now,
        longest_transfer,
        files_kept
    )
    .fetch_one(&mut **tx)
    .await?;
    let count = |n: i64| usize::try_from(n).unwrap_or(0);
    Ok(Written {
        attempts: count(row.attempts),
        jobs: count(row.jobs),
        postings: count(row.postings),
        events: count(row.events),
    })
}
