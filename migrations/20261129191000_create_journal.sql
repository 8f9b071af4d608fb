-- What attempts write besides their results. A row's writer (epoch and token digest) never leaves the
-- store: it tells the writer's repeat from everybody else's request.

create table attempt_events (
    attempt_id uuid not null references attempts,
    lease_epoch bigint not null,
    event_id uuid not null,
    seq bigint not null,
    job_id uuid not null,
    job_seq bigint not null,
    kind text not null,
    payload jsonb not null,
    recorded_at timestamptz not null,
    writer_digest bytea,
    primary key (attempt_id, lease_epoch, event_id),
    unique (attempt_id, lease_epoch, seq),
    unique (job_id, job_seq),
    constraint digest_is_sha256 check (octet_length(writer_digest) = 32),
    constraint seq_is_not_negative check (seq >= 0)
);
comment on table attempt_events is 'Journal of attempts. Ids and numbers are unique per attempt and epoch, so that an old lease''s rows are never in the way of the next one''s.';
comment on column attempt_events.attempt_id is 'The attempt.';
comment on column attempt_events.lease_epoch is 'The epoch under which it was written. Never leaves the store.';
comment on column attempt_events.event_id is 'The writer''s own id for it.';
comment on column attempt_events.seq is 'The writer''s own number for it.';
comment on column attempt_events.job_id is 'The attempt''s job.';
comment on column attempt_events.job_seq is 'Its place among all that happened to the job; minted under the job''s lock, so it becomes visible in order.';
comment on column attempt_events.kind is 'What happened, as an identifier.';
comment on column attempt_events.payload is 'What there is to say about it; text in it was cleaned.';
comment on column attempt_events.recorded_at is 'When it was written, by the one clock.';
comment on column attempt_events.writer_digest is 'Token digest of whoever wrote it; null if nobody with a lease did. Never leaves the store.';

create table attempt_grants (
    object_key text primary key,
    attempt_id uuid not null references attempts,
    lease_epoch bigint not null,
    name text not null,
    granted_at timestamptz not null,
    unique (attempt_id, lease_epoch, name)
);
comment on table attempt_grants is 'Objects besides its output that an attempt may write; what is to be deleted after it.';
comment on column attempt_grants.object_key is 'The object.';
comment on column attempt_grants.attempt_id is 'Who may write it.';
comment on column attempt_grants.lease_epoch is 'The epoch that asked for it first.';
comment on column attempt_grants.name is 'The artifact that it is for.';
comment on column attempt_grants.granted_at is 'When it was first granted; until when is the attempt''s grant_expires_at.';

create table attempt_artifacts (
    attempt_id uuid not null references attempts,
    lease_epoch bigint not null,
    name text not null,
    job_id uuid not null,
    job_seq bigint not null,
    object_key text not null references attempt_grants,
    sha256 bytea not null,
    size_bytes bigint not null,
    recorded_at timestamptz not null,
    writer_digest bytea,
    primary key (attempt_id, lease_epoch, name),
    unique (job_id, job_seq),
    constraint digest_is_sha256 check
        (octet_length(writer_digest) = 32 and octet_length(sha256) = 32),
    constraint size_is_not_negative check (size_bytes >= 0)
);
comment on table attempt_artifacts is 'Files that attempts named besides their outputs. Nobody but their writer has looked at the bytes.';
comment on column attempt_artifacts.attempt_id is 'The attempt.';
comment on column attempt_artifacts.lease_epoch is 'The epoch under which it was written. Never leaves the store.';
comment on column attempt_artifacts.name is 'Its name.';
comment on column attempt_artifacts.job_id is 'The attempt''s job.';
comment on column attempt_artifacts.job_seq is 'Its place among all that happened to the job, as with events.';
comment on column attempt_artifacts.object_key is 'The object, one that was granted to the attempt.';
comment on column attempt_artifacts.sha256 is 'The digest that was declared.';
comment on column attempt_artifacts.size_bytes is 'The size that was declared.';
comment on column attempt_artifacts.recorded_at is 'When it was written, by the one clock.';
comment on column attempt_artifacts.writer_digest is 'Token digest of whoever wrote it; null if nobody with a lease did. Never leaves the store.';

comment on column jobs.event_counter is 'The highest sequence number of all that happened to it: what is told, its attempts'' events and artifacts.';
