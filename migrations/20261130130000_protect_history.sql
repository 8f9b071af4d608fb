-- History stays as it is for everybody: also for a session that switches ordinary triggers off
-- (session_replication_role), as tools for copying data do.
alter table postings enable always trigger append_only;
alter table postings enable always trigger append_only_whole;
alter table audit_log enable always trigger append_only;
alter table audit_log enable always trigger append_only_whole;

-- statement: what moved on an account within a time, and since.
create index postings_of_org_by_time on postings (org_id, created_at);
