-- How far the clock has ever been, so that a clock that goes back is noticed, also after a restart.
alter table authority_state add column marked_at timestamptz not null default authority_now();
comment on column authority_state.marked_at is 'The high-water mark of the clock: while the clock is behind it, nothing that compares an expiry is decided.';

-- Read without a lock. Volatile, so that it sees what was committed while its caller waited for
-- one; read it before the clock, which is then ahead of it unless the clock has gone back.
create function authority_mark() returns timestamptz
    language sql volatile
    begin atomic
        select marked_at from authority_state;
    end;
comment on function authority_mark() is
    'What authority_now() must not be behind. Nothing else reads the mark to decide.';

-- The last act before COMMIT, as before; a clock that went back since the check proves nothing.
create or replace function refuse_expired_claim() returns trigger language plpgsql as $$
begin
    if old.lease_expires_at <= greatest(authority_mark(), authority_now()) then
        raise exception 'the lease expired before the transaction could commit'
            using errcode = 'FP001';
    end if;
    return null;
end $$;
