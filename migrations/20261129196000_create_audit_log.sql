create table audit_log (
    id uuid primary key,
    at timestamptz not null default authority_now(),
    actor text not null,
    action text not null,
    subject text not null,
    detail jsonb not null default '{}',
    constraint detail_is_an_object check (jsonb_typeof(detail) = 'object')
);
create index audit_log_by_time on audit_log (at, id);
comment on table audit_log is 'What operators did: each line is written in the transaction that did it, and never changed.';
comment on column audit_log.at is 'When it was done.';
comment on column audit_log.actor is 'Who did it.';
comment on column audit_log.action is 'What was done, such as clock.accept.';
comment on column audit_log.subject is 'To what it was done: an id, or a word where there is only one.';
comment on column audit_log.detail is 'What else is worth knowing; never a secret.';

create function refuse_change_of_audit() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only' using errcode = 'FP003';
end $$;
create trigger append_only before update or delete on audit_log
    for each row execute function refuse_change_of_audit();
create trigger append_only_whole before truncate on audit_log
    for each statement execute function refuse_change_of_audit();
