-- What a test database has that a real one has not. Installed into the template, after the migrations.

-- The movable clock: it stands still at frozen_at, or runs; either way it is shifted.
create table test_clock (frozen_at timestamptz, shift interval not null default '0');
insert into test_clock default values;

create or replace function authority_now() returns timestamptz language sql volatile parallel safe
    as 'select coalesce(frozen_at, clock_timestamp()) + shift from test_clock';

-- Every change of a job's status or end, so that the checker can tell what happened twice.
create table test_job_history (
    id bigint generated always as identity primary key,
    job_id uuid not null,
    old_status text not null,
    new_status text not null,
    old_ended_at timestamptz,
    new_ended_at timestamptz
);
create function test_record_job() returns trigger language plpgsql as $$
begin
    insert into test_job_history (job_id, old_status, new_status, old_ended_at, new_ended_at)
    values (new.id, old.status, new.status, old.ended_at, new.ended_at);
    return null;
end $$;
create trigger test_history after update on jobs for each row
    when (old.status <> new.status or old.ended_at is distinct from new.ended_at)
    execute function test_record_job();
