-- Files of ended jobs are kept for a stated time, and records for a longer one. Money outlives both.

alter table jobs
    add column files_expire_at timestamptz,
    add column files_deleted_at timestamptz,
    add constraint files_outlive_the_job check (ended_at is not null
        or num_nonnulls(files_expire_at, files_deleted_at) = 0);
comment on column jobs.files_expire_at is 'Until when its inputs, output and artifacts are kept; promised when it ended.';
comment on column jobs.files_deleted_at is 'When output and artifacts were given up, by time or by the buyer; from then on they are served no more.';

alter table uploads
    add column look_after timestamptz,
    add column deleted_at timestamptz;
comment on column uploads.look_after is 'When it is looked at next whether anybody still needs it; once it is deleted, when its row goes.';
comment on column uploads.deleted_at is 'When it was given up, by time or by the buyer; from then on it is no input.';
-- retire_uploads: what is to be looked at.
create index uploads_to_look_at on uploads (look_after);
update uploads set look_after = created_at + interval '1 day';

create table job_inputs (
    upload_id uuid not null references uploads,
    job_id uuid not null references jobs,
    primary key (upload_id, job_id)
);
create index job_inputs_of_job on job_inputs (job_id);
comment on table job_inputs is 'Which jobs read which uploads: an upload is kept while one of them may.';
comment on column job_inputs.upload_id is 'The upload.';
comment on column job_inputs.job_id is 'The job. Both are of one org.';
insert into job_inputs (upload_id, job_id)
select distinct u.id, j.id from jobs j cross join jsonb_array_elements(j.inputs) i(input)
    join uploads u on u.object_key = i.input ->> 'object_key';

-- What an org uses and may use, on the row that its submits lock anyway.
alter table org_accounts
    add column open_jobs bigint not null default 0,
    add column stored_bytes bigint not null default 0,
    add column max_open_jobs bigint,
    add column max_stored_bytes bigint,
    add constraint use_is_not_negative check (open_jobs >= 0 and stored_bytes >= 0),
    add constraint quotas_are_not_negative check (max_open_jobs >= 0 and max_stored_bytes >= 0);
comment on column org_accounts.open_jobs is 'Its jobs that have not ended.';
comment on column org_accounts.stored_bytes is 'The bytes of its uploads and of the outputs of its jobs, as far as they are not given up.';
comment on column org_accounts.max_open_jobs is 'The most jobs that may be open; null is what the configuration says.';
comment on column org_accounts.max_stored_bytes is 'The most bytes; null is what the configuration says.';
comment on table org_accounts is 'An org''s balance, and what it uses: the only row of money that is ever locked. The balance equals the sum of its postings.';
update org_accounts o set
    open_jobs = (select count(*) from jobs where org_id = o.org_id and ended_at is null),
    stored_bytes = (select coalesce(sum(size_bytes), 0) from uploads where org_id = o.org_id)
        + (select coalesce(sum(output_size_bytes), 0) from jobs where org_id = o.org_id);

-- However an upload comes or goes, its bytes are counted.
create function count_stored_upload() returns trigger language plpgsql as $$
begin
    update org_accounts set stored_bytes = stored_bytes
        + case when new.deleted_at is null then coalesce(new.size_bytes, 0) else 0 end
        - case when old.deleted_at is null then coalesce(old.size_bytes, 0) else 0 end
    where org_id = new.org_id;
    return null;
end $$;
create trigger stored_bytes_are_counted after update on uploads for each row
    when (old.size_bytes is distinct from new.size_bytes
          or old.deleted_at is distinct from new.deleted_at)
    execute function count_stored_upload();

-- Postings stay when the job that they are about is pruned; `fencepost ledger check` judges their sums.
alter table postings drop constraint postings_job_id_fkey;
comment on column postings.job_id is 'The job that it is about, which may be pruned by now.';
