-- Events go to the buyers' own servers. One row for each event and receiver, made in the statement that
-- writes the event; what is sent and when is decided by them alone, so any gateway can go on.
create table webhook_endpoints (
    id uuid primary key,
    org_id uuid not null references orgs,
    url text not null,
    event_types text[] not null,
    enabled boolean not null default true,
    disabled_reason text,
    disabled_at timestamptz,
    secret bytea not null,
    previous_secret bytea,
    previous_secret_until timestamptz,
    failing_since timestamptz,
    last_failure_at timestamptz,
    rest_until timestamptz,
    created_at timestamptz not null default authority_now(),
    deleted_at timestamptz,
    constraint url_is_short check (length(url) between 1 and 2000),
    constraint event_types_are_known check (event_types <@ array[
        'job.succeeded', 'job.failed', 'job.cancelled', 'webhook_endpoint.disabled']),
    constraint disabled_for_a_reason check (enabled = (disabled_reason is null)
        and (disabled_reason is null) = (disabled_at is null)),
    constraint disabled_reason_is_known check
        (disabled_reason in ('buyer', 'operator', 'gone', 'failing')),
    constraint previous_secret_has_an_end check
        ((previous_secret is null) = (previous_secret_until is null)),
    constraint failing_is_whole check ((failing_since is null) = (last_failure_at is null)),
    constraint deleted_is_disabled check (deleted_at is null or not enabled)
);
-- finish: who is told of an org's events.
create index webhook_endpoints_of_org on webhook_endpoints (org_id) where deleted_at is null;
comment on table webhook_endpoints is 'Addresses that buyers gave us to send their events to.';
comment on column webhook_endpoints.org_id is 'Whose events are sent there.';
comment on column webhook_endpoints.url is 'The address. It may hold a secret of the buyer''s: it is in no log.';
comment on column webhook_endpoints.event_types is 'Which events are sent there; besides those of jobs that name the endpoint.';
comment on column webhook_endpoints.enabled is 'Whether anything is sent.';
comment on column webhook_endpoints.disabled_reason is 'Who or what switched it off: buyer, operator, gone (it said 410), failing (nothing but failures for too long).';
comment on column webhook_endpoints.disabled_at is 'When it was switched off.';
comment on column webhook_endpoints.secret is 'What its events are signed with: sealed with a key that only the gateways'' configuration has.';
comment on column webhook_endpoints.previous_secret is 'The secret before, sealed likewise: for a while both sign.';
comment on column webhook_endpoints.previous_secret_until is 'From then on the secret before signs no more.';
comment on column webhook_endpoints.failing_since is 'The first failure since the last success, or since a day without any try; null while it works.';
comment on column webhook_endpoints.last_failure_at is 'The latest failure since the last success.';
comment on column webhook_endpoints.rest_until is 'It asked to be left alone until then.';
comment on column webhook_endpoints.created_at is 'When it was made.';
comment on column webhook_endpoints.deleted_at is 'When its buyer deleted it; its secrets are gone since, its deliveries follow.';

-- No foreign key to the endpoint: every end of a job would lock its row. It outlives its deliveries,
-- because it is deleted last (prune_deliveries).
create table webhook_deliveries (
    endpoint_id uuid not null,
    event_id uuid not null references outbox on delete cascade,
    state text not null,
    tries integer not null default 0,
    round_tries integer not null default 0,
    next_at timestamptz,
    claim uuid,
    requeued_by uuid,
    created_at timestamptz not null,
    primary key (endpoint_id, event_id),
    constraint state_is_known check (state in ('pending', 'succeeded', 'failed', 'held')),
    constraint pending_has_a_time check ((state = 'pending') = (next_at is not null)),
    constraint tries_are_counted check (round_tries between 0 and tries)
);
-- claim_deliveries: which endpoints have any, and of one the first that are due.
create index webhook_deliveries_pending on webhook_deliveries (endpoint_id, next_at)
    where next_at is not null;
-- claim_deliveries: what was claimed together.
create index webhook_deliveries_claimed on webhook_deliveries (claim) where claim is not null;
-- prune_deliveries: the oldest first. Also finds those of an event that is pruned.
create index webhook_deliveries_by_event on webhook_deliveries (event_id);
comment on table webhook_deliveries is 'An event on its way to one endpoint that was subscribed when it happened.';
comment on column webhook_deliveries.endpoint_id is 'Where it goes.';
comment on column webhook_deliveries.event_id is 'The event; it is sent along as webhook-id, the same at every try.';
comment on column webhook_deliveries.state is 'pending, succeeded, failed (no try is left), held (the endpoint is switched off).';
comment on column webhook_deliveries.tries is 'How often it was tried.';
comment on column webhook_deliveries.round_tries is 'How often since it was queued, or put back by somebody: that decides when it is tried next.';
comment on column webhook_deliveries.next_at is 'When it is tried; while a gateway tries it, when another one may. Null unless pending.';
comment on column webhook_deliveries.claim is 'Who tries it: only they may record how it went. Null unless somebody does, or did and went away.';
comment on column webhook_deliveries.requeued_by is 'The request that last put it back.';
comment on column webhook_deliveries.created_at is 'When the event happened.';

create table webhook_tries (
    endpoint_id uuid not null,
    event_id uuid not null,
    number integer not null,
    claim uuid not null,
    outcome text not null,
    status integer,
    error text,
    answer text,
    duration_ms integer not null,
    at timestamptz not null,
    primary key (endpoint_id, event_id, number),
    foreign key (endpoint_id, event_id) references webhook_deliveries on delete cascade,
    constraint outcome_is_known check
        (outcome in ('succeeded', 'retried', 'exhausted', 'disabled', 'held')),
    constraint answered_or_failed check ((status is null) = (error is not null)),
    constraint answer_is_short check (length(answer) <= 2000)
);
comment on table webhook_tries is 'What came of each try of a delivery, for its buyer to see.';
comment on column webhook_tries.endpoint_id is 'Of the delivery.';
comment on column webhook_tries.event_id is 'Of the delivery.';
comment on column webhook_tries.number is 'From 1.';
comment on column webhook_tries.claim is 'The claim under which it was made.';
comment on column webhook_tries.outcome is 'What followed: succeeded, retried, exhausted, disabled (the endpoint, by this try), held (it was switched off meanwhile).';
comment on column webhook_tries.status is 'The HTTP status of the answer; null if there was none.';
comment on column webhook_tries.error is 'Why there was no answer.';
comment on column webhook_tries.answer is 'The beginning of the answer''s body, cleaned.';
comment on column webhook_tries.duration_ms is 'How long it took.';
comment on column webhook_tries.at is 'When it was recorded.';

alter table jobs add column webhook_endpoint_id uuid;
comment on column jobs.webhook_endpoint_id is 'An endpoint that is told of this job whatever it is subscribed to.';

-- An endpoint that was switched off is an event too, of no job.
alter table outbox
    alter column job_id drop not null,
    alter column seq drop not null,
    add constraint events_of_jobs_are_numbered check
        ((job_id is null) = (seq is null) and (job_id is not null or not terminal));
-- prune_deliveries: what no job takes with it.
create index outbox_of_no_job on outbox (created_at) where job_id is null;
