create type job_status as enum
    ('queued', 'active', 'verifying', 'cancelling', 'succeeded', 'failed', 'cancelled');

create table uploads (
    id uuid primary key,
    org_id uuid not null references orgs,
    object_key text not null unique,
    max_bytes bigint not null,
    size_bytes bigint,
    sha256 bytea,
    stored_at timestamptz,
    created_at timestamptz not null default authority_now(),
    constraint digest_is_sha256 check (octet_length(sha256) = 32),
    constraint known_iff_stored check
        ((stored_at is null) = (size_bytes is null) and (stored_at is null) = (sha256 is null)),
    constraint size_within_limit check (size_bytes between 0 and max_bytes)
);
comment on table uploads is 'Files that buyers sent, to be used as inputs.';
comment on column uploads.org_id is 'Whose file it is.';
comment on column uploads.object_key is 'Where the bytes are.';
comment on column uploads.max_bytes is 'The most that was allowed.';
comment on column uploads.size_bytes is 'How many bytes came.';
comment on column uploads.sha256 is 'Their digest, computed while they came.';
comment on column uploads.stored_at is 'When they were all there; null until then.';
comment on column uploads.created_at is 'When the buyer asked.';

create table jobs (
    id uuid primary key,
    org_id uuid not null references orgs,
    service text not null,
    params jsonb not null,
    inputs jsonb not null,
    metadata jsonb not null,
    lane text not null,
    max_output_seconds int not null,
    max_run_micros bigint not null,
    max_attempts int not null,
    admission_deadline timestamptz not null,
    base_micros bigint not null,
    per_minute_micros bigint not null,
    provider_share_bps int not null,
    held_micros bigint not null,
    order_key timestamptz not null,
    created_at timestamptz not null,
    -- What changes stands apart from what never does.
    status job_status not null default 'queued',
    queue_key timestamptz,
    wake_at timestamptz,
    epoch_counter bigint not null default 0,
    attempt_counter int not null default 0,
    charged_attempts int not null default 0,
    returned_offers int not null default 0,
    event_counter bigint not null default 0,
    cancel_requested_at timestamptz,
    failure_code text,
    failure_message text,
    winning_attempt_id uuid,
    output_key text,
    output_sha256 bytea,
    output_size_bytes bigint,
    output_seconds double precision,
    ended_at timestamptz,
    constraint max_attempts_within_bounds check (max_attempts between 1 and 10),
    constraint charged_within_budget check (charged_attempts between 0 and max_attempts),
    constraint money_is_not_negative check
        (held_micros >= 0 and base_micros >= 0 and per_minute_micros >= 0),
    constraint share_is_a_part check (provider_share_bps between 0 and 10000),
    constraint run_time_is_positive check (max_run_micros > 0 and max_output_seconds > 0),
    constraint place_in_queue_iff_queued check
        (num_nonnulls(queue_key, wake_at) = (status = 'queued')::int),
    constraint ended_at_iff_terminal check
        ((ended_at is not null) = (status in ('succeeded', 'failed', 'cancelled'))),
    constraint failure_code_iff_failed check ((failure_code is not null) = (status = 'failed')),
    constraint output_iff_succeeded check
        (num_nonnulls(winning_attempt_id, output_key, output_sha256, output_size_bytes,
                      output_seconds) = 5 * (status = 'succeeded')::int),
    constraint cancel_was_requested check
        (status not in ('cancelling', 'cancelled') or cancel_requested_at is not null)
) with (fillfactor = 70);
-- lease_round: the heads of each org within each lane, without reading the rest.
create index jobs_queue on jobs (lane, org_id, queue_key, id) where queue_key is not null;
-- wake: requeued jobs whose delay is over.
create index jobs_asleep on jobs (wake_at) where wake_at is not null;
-- fail_overdue: waiting jobs whose admission deadline has passed.
create index jobs_waiting_by_deadline on jobs (admission_deadline)
    where queue_key is not null or wake_at is not null;
-- list_jobs: an org's jobs, newest first (ids are UUIDv7).
create index jobs_of_org on jobs (org_id, id);

comment on table jobs is 'What buyers asked for.';
comment on column jobs.org_id is 'Whose job it is.';
comment on column jobs.service is 'The named service and version.';
comment on column jobs.params is 'Its parameters, checked.';
comment on column jobs.inputs is 'Array of {name, object_key, sha256, size_bytes}.';
comment on column jobs.metadata is 'The buyer''s own words, never read by us.';
comment on column jobs.lane is 'The words a device must have, sorted, separated by blanks.';
comment on column jobs.max_output_seconds is 'The longest output; sets the hold.';
comment on column jobs.max_run_micros is 'The longest run of one attempt.';
comment on column jobs.max_attempts is 'The budget of charged attempts.';
comment on column jobs.admission_deadline is 'From then on it is not started again.';
comment on column jobs.base_micros is 'Price for starting, frozen at create.';
comment on column jobs.per_minute_micros is 'Price per started minute of output, frozen at create.';
comment on column jobs.provider_share_bps is 'The provider''s part, frozen at create.';
comment on column jobs.held_micros is 'What was held at create.';
comment on column jobs.order_key is 'Fixed place in the order: time queued minus the priority''s bonus.';
comment on column jobs.created_at is 'When it was posted.';
comment on column jobs.status is 'Where it stands.';
comment on column jobs.queue_key is 'order_key while it can be leased, null otherwise.';
comment on column jobs.wake_at is 'End of its delay while it waits for it, null otherwise.';
comment on column jobs.epoch_counter is 'The highest lease epoch ever issued for it. Never restarts.';
comment on column jobs.attempt_counter is 'How many attempts it has had.';
comment on column jobs.charged_attempts is 'How many of them used up its budget.';
comment on column jobs.returned_offers is 'How often it came back unworked: offers, and leases that were given back. Each time it waits longer.';
comment on column jobs.event_counter is 'The highest sequence number of its events.';
comment on column jobs.cancel_requested_at is 'When the buyer cancelled.';
comment on column jobs.failure_code is 'Why it failed.';
comment on column jobs.failure_message is 'Why it failed, for a person.';
comment on column jobs.winning_attempt_id is 'The attempt whose output this is.';
comment on column jobs.output_key is 'The verified copy, the only thing ever served.';
comment on column jobs.output_sha256 is 'Digest of the verified copy.';
comment on column jobs.output_size_bytes is 'Size of the verified copy.';
comment on column jobs.output_seconds is 'Duration of the output, which decided the price.';
comment on column jobs.ended_at is 'When it ended.';

-- The arrows of the job, as in the domain crate (a test compares the two).
create function job_arrow_exists(old job_status, new job_status) returns boolean
    language sql immutable
    return case old
        when 'queued' then new in ('active', 'cancelled', 'failed')
        when 'active' then new in ('queued', 'verifying', 'cancelling', 'failed')
        when 'verifying' then new in ('succeeded', 'queued', 'cancelling', 'failed')
        when 'cancelling' then new = 'cancelled'
        else false
    end;

create function refuse_job_arrow() returns trigger language plpgsql as $$
begin
    raise exception 'a job cannot go from % to %', old.status, new.status using errcode = 'FP002';
end $$;

create trigger job_arrow before update on jobs for each row
    when (old.status <> new.status and not job_arrow_exists(old.status, new.status))
    execute function refuse_job_arrow();
