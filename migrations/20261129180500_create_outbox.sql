create table outbox (
    id uuid primary key,
    org_id uuid not null references orgs,
    job_id uuid not null references jobs,
    seq bigint not null,
    kind text not null,
    terminal boolean not null,
    body jsonb not null,
    created_at timestamptz not null,
    unique (job_id, seq)
);
create unique index one_terminal_event_per_job on outbox (job_id) where terminal;
comment on table outbox is 'Events for buyers, written in the transaction of the change that they tell of.';
comment on column outbox.org_id is 'Who is told.';
comment on column outbox.job_id is 'The job it is about.';
comment on column outbox.seq is 'Its place among the job''s events, minted under the job''s lock.';
comment on column outbox.kind is 'job.succeeded, job.failed or job.cancelled.';
comment on column outbox.terminal is 'Whether it tells of the job''s end, of which there is one.';
comment on column outbox.body is 'What is sent: state as of the event.';
comment on column outbox.created_at is 'When it happened.';
