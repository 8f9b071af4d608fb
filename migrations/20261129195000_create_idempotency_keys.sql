create table idempotency_keys (
    org_id uuid not null references orgs,
    key text not null,
    fingerprint bytea not null,
    job_id uuid not null references jobs,
    created_at timestamptz not null default authority_now(),
    primary key (org_id, key),
    constraint key_is_short check (length(key) between 1 and 255),
    constraint fingerprint_is_sha256 check (octet_length(fingerprint) = 32)
);
create index idempotency_keys_of_job on idempotency_keys (job_id);
-- prune_keys: the oldest first.
create index idempotency_keys_by_age on idempotency_keys (created_at);
comment on table idempotency_keys is 'What buyers call their requests for jobs, so that a repeat is the same job. Written with the job.';
comment on column idempotency_keys.org_id is 'Whose key it is; others may use the same word.';
comment on column idempotency_keys.key is 'The buyer''s word.';
comment on column idempotency_keys.fingerprint is 'SHA-256 of what the request meant, to tell a repeat from another request.';
comment on column idempotency_keys.job_id is 'The job that the request made.';
comment on column idempotency_keys.created_at is 'When it was used first. No key is forgotten before a day after its job has ended.';
