-- Operators end sessions, and so does a device that is two agents.
alter table devices
    add column void_through bigint not null default 0,
    add column disconnected_at timestamptz,
    add column supersedes timestamptz[] not null default '{}',
    add column note text,
    add constraint void_sessions_were_minted check (void_through <= session_counter),
    add constraint supersedes_are_few check (cardinality(supersedes) <= 3),
    add constraint note_is_readable check (length(note) between 1 and 500);
comment on column devices.void_through is 'Sessions up to this number count no more: the device was disabled or paired again after them.';
comment on column devices.disconnected_at is 'When the current session''s socket closed, if a gateway saw it; null while it is connected.';
comment on column devices.supersedes is 'When another agent process took a live session over, the last few times.';
comment on column devices.note is 'Why it is disabled, for people.';
