-- Finding an org's jobs by its own words. Rows of their own and no index on jobs: a job's row is
-- rewritten at each step of its life, and every index on it would be written with it.
create table job_words (
    org_id uuid not null,
    word bytea not null,
    job_id uuid not null references jobs on delete cascade,
    primary key (org_id, word, job_id)
);
-- The jobs of a word, and of a job that is deleted, its words.
create index job_words_of_job on job_words (job_id);

comment on table job_words is 'What jobs can be found by: the keys and plain values of their metadata.';
comment on column job_words.org_id is 'Whose job it is.';
comment on column job_words.word is 'Digest of one key and its value, by job_word().';
comment on column job_words.job_id is 'The job; ids are UUIDv7, so the later ones come last.';

-- One key of a job's metadata with its value. The length keeps apart where the key ends.
create function job_word(key text, value text) returns bytea language sql immutable parallel safe
    return sha256(convert_to(length(key) || ':' || key || value, 'UTF8'));

insert into job_words (org_id, word, job_id)
select j.org_id, job_word(m.key, m.value #>> '{}'), j.id
from jobs j, jsonb_each(j.metadata) m
where jsonb_typeof(m.value) in ('string', 'number', 'boolean')
on conflict do nothing;
