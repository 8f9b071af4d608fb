-- A gateway that was killed closes no session of its own; its devices are not connected all the same.
create table gateways (
    id uuid primary key,
    seen_at timestamptz not null
);
comment on table gateways is 'Processes that sweep. One that has not been seen for some seconds is gone, and so are its sockets.';
comment on column gateways.id is 'Made anew at every start.';
comment on column gateways.seen_at is 'When it last finished a sweep.';
alter table devices add column gateway_id uuid;
comment on column devices.gateway_id is 'The gateway that the current session''s socket is at.';
create function gateway_runs(gateway uuid) returns boolean language sql stable
    return gateway is null or exists (select from gateways g
        where g.id = gateway and g.seen_at > authority_now() - interval '15 seconds');
