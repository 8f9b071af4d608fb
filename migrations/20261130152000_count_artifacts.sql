-- Artifacts of the winning attempt are kept as long as the output, so they count like it.
alter table jobs
    add column artifact_bytes bigint not null default 0,
    add constraint artifacts_are_counted_once_it_ended check
        (artifact_bytes >= 0 and (artifact_bytes = 0 or status = 'succeeded'));
comment on column jobs.artifact_bytes is 'The declared bytes of the winning attempt''s artifacts, which are kept with the output.';
update jobs j set artifact_bytes = f.bytes
from (select attempt_id, sum(size_bytes)::bigint as bytes from attempt_artifacts group by attempt_id) f
where f.attempt_id = j.winning_attempt_id;
update org_accounts o set stored_bytes = o.stored_bytes + f.bytes
from (select org_id, sum(artifact_bytes)::bigint as bytes from jobs
      where files_deleted_at is null group by org_id) f
where f.org_id = o.org_id;
comment on column org_accounts.stored_bytes is 'The bytes of its uploads, and of the outputs of its jobs with the artifacts that are kept with them, as far as they are not given up.';
