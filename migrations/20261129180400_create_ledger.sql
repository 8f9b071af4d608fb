create type ledger_account as enum
    ('external', 'org_available', 'org_held', 'provider', 'platform');
create type posting_kind as enum
    ('credit', 'hold', 'capture_provider', 'capture_platform', 'release');

create table org_accounts (
    org_id uuid primary key references orgs,
    available_micros bigint not null default 0,
    held_micros bigint not null default 0,
    constraint never_overdrawn check (available_micros >= 0 and held_micros >= 0)
) with (fillfactor = 50);
comment on table org_accounts is 'An org''s balance: the only row of money that is ever locked. Equals the sum of its postings.';
comment on column org_accounts.available_micros is 'What can be spent, in millionths.';
comment on column org_accounts.held_micros is 'What is reserved for running jobs, in millionths.';

create table postings (
    id bigint generated always as identity primary key,
    kind posting_kind not null,
    debit ledger_account not null,
    credit ledger_account not null,
    amount_micros bigint not null,
    org_id uuid not null references orgs,
    job_id uuid references jobs,
    provider_id uuid references providers,
    request_id uuid unique,
    created_at timestamptz not null default authority_now(),
    constraint moves_something check (amount_micros > 0 and debit <> credit),
    constraint kind_names_its_accounts check ((kind, debit, credit) in (
        ('credit', 'external', 'org_available'),
        ('hold', 'org_available', 'org_held'),
        ('capture_provider', 'org_held', 'provider'),
        ('capture_platform', 'org_held', 'platform'),
        ('release', 'org_held', 'org_available'))),
    constraint job_iff_not_credit check ((job_id is null) = (kind = 'credit')),
    constraint request_iff_credit check ((request_id is null) = (kind <> 'credit')),
    constraint provider_iff_theirs check ((provider_id is not null) = (kind = 'capture_provider'))
);
create unique index at_most_one_of_a_kind_per_job on postings (job_id, kind);
create index postings_of_org on postings (org_id, id);
create index postings_of_provider on postings (provider_id) where provider_id is not null;
comment on table postings is 'Every movement of money: one row moves one amount between two accounts, so it balances by construction.';
comment on column postings.kind is 'Why it moved.';
comment on column postings.debit is 'Where it was taken.';
comment on column postings.credit is 'Where it went.';
comment on column postings.amount_micros is 'How much, in millionths; never zero.';
comment on column postings.org_id is 'The org whose money it is or was.';
comment on column postings.job_id is 'The job that it is about.';
comment on column postings.provider_id is 'The provider that earns it.';
comment on column postings.request_id is 'The request that added this credit, so that it is added once.';
comment on column postings.created_at is 'When it moved.';

create function refuse_change_of_history() returns trigger language plpgsql as $$
begin
    raise exception 'postings are append-only' using errcode = 'FP003';
end $$;
create trigger append_only before update or delete on postings
    for each row execute function refuse_change_of_history();
create trigger append_only_whole before truncate on postings
    for each statement execute function refuse_change_of_history();
