create table authority_state (
    singleton boolean primary key default true,
    swept_at timestamptz not null default authority_now(),
    constraint there_is_one check (singleton)
);
insert into authority_state default values;
comment on table authority_state is 'One row: what all gateways together know of time.';
comment on column authority_state.swept_at is 'When a sweep was last finished, on whichever gateway. A long gap is our outage, not the devices''.';
comment on column authority_state.singleton is 'Always true, so that there is one row.';
