create type attempt_status as enum
    ('leased', 'downloading', 'running', 'uploading', 'committing',
     'succeeded', 'failed', 'lost', 'cancelled');

create table attempts (
    id uuid primary key,
    job_id uuid not null references jobs,
    org_id uuid not null,
    device_id uuid not null references devices,
    provider_id uuid not null,
    attempt_number int not null,
    output_key text not null,
    leased_at timestamptz not null,
    run_deadline timestamptz not null,
    -- What changes stands apart from what never does.
    session_number bigint not null,
    status attempt_status not null default 'leased',
    lease_epoch bigint not null,
    token_digest bytea,
    replaced_epoch bigint,
    replaced_digest bytea,
    resumes int not null default 0,
    lease_expires_at timestamptz,
    grant_expires_at timestamptz not null,
    accepted_at timestamptz,
    stop_reason text,
    percent real,
    detail text,
    check_after timestamptz,
    final_operation text,
    final_epoch bigint,
    final_digest bytea,
    final_content bytea,
    declared_key text,
    declared_sha256 bytea,
    declared_size_bytes bigint,
    verification_epoch bigint not null default 0,
    verification_started_at timestamptz,
    verify_until timestamptz,
    charged boolean not null default false,
    failure_code text,
    failure_message text,
    ended_at timestamptz,
    collect_after timestamptz,
    collections int not null default 0,
    unique (job_id, attempt_number),
    constraint epoch_is_positive check (lease_epoch > 0),
    constraint digest_is_sha256 check (octet_length(token_digest) = 32),
    constraint replaced_pair_is_whole check
        ((replaced_epoch is null) = (replaced_digest is null) and replaced_epoch < lease_epoch),
    constraint ended_at_iff_terminal check
        ((ended_at is not null) = (status in ('succeeded', 'failed', 'lost', 'cancelled'))),
    constraint lease_expires_iff_live check ((lease_expires_at is not null) = (ended_at is null)),
    constraint checked_iff_live check ((check_after is not null) = (ended_at is null)),
    constraint accepted_before_phases check
        (accepted_at is not null or status in ('leased', 'lost', 'cancelled')),
    constraint final_writer_is_whole check
        (num_nonnulls(final_operation, final_epoch, final_digest, final_content) in (0, 4)),
    constraint final_operation_is_known check (final_operation in ('commit', 'fail', 'release')),
    constraint declared_iff_verified check
        (num_nonnulls(declared_key, declared_sha256, declared_size_bytes)
            = 3 * (verification_epoch > 0)::int),
    constraint verified_from_committing_on check
        ((verification_epoch > 0) = (verification_started_at is not null)
         and (verify_until is not null) = (status = 'committing')
         and (status not in ('committing', 'succeeded') or verification_epoch > 0)),
    constraint stop_reason_is_known check (stop_reason in ('buyer_cancelled', 'revoked')),
    constraint collected_only_after_the_end check (collect_after is null or ended_at is not null),
    constraint percent_is_a_percentage check (percent between 0 and 100)
) with (fillfactor = 50);

-- The first promise, as a constraint that even a mistake of ours cannot pass.
create unique index one_live_attempt_per_job on attempts (job_id) where ended_at is null;
-- lease_round: how many slots of a device and how much of an org's limit are taken.
create index live_attempts_of_device on attempts (device_id) where ended_at is null;
create index live_attempts_of_org on attempts (org_id) where ended_at is null;
-- lease_round: how a device's last attempts ended (ids are UUIDv7, so later leases come later).
create index attempts_of_device on attempts (device_id, id);
-- expire_due. Only the sweeper moves check_after, about once per lease length: an index on the
-- expiry itself would make every renewal rewrite every index.
create index attempts_to_check on attempts (check_after) where ended_at is null;

-- collect_garbage: ended attempts whose objects nobody can be writing any more.
create index attempts_to_collect on attempts (collect_after) where collect_after is not null;

comment on table attempts is 'Runs of jobs on devices. Renewals and phases stay HOT: no index holds a column that they change.';
comment on column attempts.job_id is 'The job that is run.';
comment on column attempts.org_id is 'Whose job it is.';
comment on column attempts.device_id is 'The device that it was leased to.';
comment on column attempts.provider_id is 'Who earns if it wins; recorded when it was leased.';
comment on column attempts.attempt_number is 'Which run of the job this is, from 1.';
comment on column attempts.output_key is 'The one object that its agent may write.';
comment on column attempts.leased_at is 'When it was leased.';
comment on column attempts.run_deadline is 'No renewal goes past this.';
comment on column attempts.session_number is 'The session that it was leased or resumed under.';
comment on column attempts.status is 'Where it stands.';
comment on column attempts.lease_epoch is 'The fencing number: higher than any ever issued for the job.';
comment on column attempts.token_digest is 'SHA-256 of the commit token; the token itself is nowhere.';
comment on column attempts.replaced_epoch is 'The epoch before the last resume, until a frame presents the new one: its welcome may be lost.';
comment on column attempts.replaced_digest is 'The token digest that went with it; a hello, and nothing else, may present the two.';
comment on column attempts.resumes is 'Resumes in a row in which no phase or percent was gained.';
comment on column attempts.lease_expires_at is 'The lease is live before this instant and dead at it; the accept deadline until accepted.';
comment on column attempts.grant_expires_at is 'The last moment at which a transfer of its objects can start.';
comment on column attempts.accepted_at is 'When the agent took the offer; losses before that are free.';
comment on column attempts.stop_reason is 'Why the agent is told to stop; set together with the job''s cancelling.';
comment on column attempts.percent is 'How much of the phase is done, as the agent said.';
comment on column attempts.detail is 'One line for people, as the agent said.';
comment on column attempts.check_after is 'When the sweeper looks at it next; never later than the lease''s end.';
comment on column attempts.final_operation is 'The commit, fail or release that is stored, of which there is at most one.';
comment on column attempts.final_epoch is 'The epoch of whoever wrote it.';
comment on column attempts.final_digest is 'The token digest of whoever wrote it. Never leaves the store.';
comment on column attempts.final_content is 'SHA-256 of its meaning, to tell a repeat from another request.';
comment on column attempts.declared_key is 'The object that the commit named.';
comment on column attempts.declared_sha256 is 'The digest that the commit declared.';
comment on column attempts.declared_size_bytes is 'The size that the commit declared.';
comment on column attempts.verification_epoch is 'Which pick-up of its verification is the current one; 0 before a commit.';
comment on column attempts.verification_started_at is 'When the commit was accepted.';
comment on column attempts.verify_until is 'When another gateway may take the verification over.';
comment on column attempts.charged is 'Whether it used up the job''s budget.';
comment on column attempts.failure_code is 'Why it did not win.';
comment on column attempts.failure_message is 'The same for a person, cleaned.';
comment on column attempts.ended_at is 'When it ended; null is "live" everywhere.';
comment on column attempts.collect_after is 'When its objects are deleted (the published copy excepted); null before its end and after the last pass.';
comment on column attempts.collections is 'How many passes have deleted them; there are two, for a transfer that outlived the first.';

create function attempt_arrow_exists(old attempt_status, new attempt_status) returns boolean
    language sql immutable
    return case
        when old in ('leased', 'downloading', 'running') then
            (new in ('downloading', 'running', 'uploading') and new > old)
            or new in ('failed', 'lost', 'cancelled')
        when old = 'uploading' then new in ('committing', 'failed', 'lost', 'cancelled')
        when old = 'committing' then new in ('succeeded', 'failed', 'lost', 'cancelled')
        else false
    end;

create function refuse_attempt_arrow() returns trigger language plpgsql as $$
begin
    raise exception 'an attempt cannot go from % to %', old.status, new.status
        using errcode = 'FP002';
end $$;

create trigger attempt_arrow before update on attempts for each row
    when (old.status <> new.status and not attempt_arrow_exists(old.status, new.status))
    execute function refuse_attempt_arrow();

-- The last act before COMMIT, still under the lock: whatever claims an agent's lease must find it
-- unexpired. A transaction that was held up between its check and here rolls back as a whole.
create function refuse_expired_claim() returns trigger language plpgsql as $$
begin
    if old.lease_expires_at <= authority_now() then
        raise exception 'the lease expired before the transaction could commit'
            using errcode = 'FP001';
    end if;
    return null;
end $$;

create constraint trigger lease_is_live_at_commit after update on attempts
    deferrable initially deferred for each row
    when (old.status in ('leased', 'downloading', 'running', 'uploading')
          and new.status not in ('lost', 'cancelled')
          and (old.status <> new.status or old.lease_expires_at < new.lease_expires_at))
    execute function refuse_expired_claim();
