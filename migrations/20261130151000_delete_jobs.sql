-- A buyer deletes a job that has ended: what they said in it goes, what money and fences need stays.
alter table jobs
    add column erased_at timestamptz,
    add constraint only_ended_jobs_are_erased check (erased_at is null or ended_at is not null);
comment on column jobs.erased_at is 'When its buyer deleted it: it is shown to them no more, and their words in it are gone.';
