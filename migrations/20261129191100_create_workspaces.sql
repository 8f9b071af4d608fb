-- What ended attempts leave on their devices, and until when.

alter table attempts
    add column retain_epoch bigint,
    add column retain_digest bytea,
    add column retain_content bytea,
    add constraint hand_off_is_whole check
        (num_nonnulls(retain_epoch, retain_digest, retain_content) in (0, 3)),
    add constraint handed_off_only_after_the_end check
        (retain_epoch is null or ended_at is not null),
    add constraint hand_off_consumed_the_token check
        (retain_epoch is null or token_digest is null);
comment on column attempts.retain_epoch is 'The epoch of whoever handed the workspace over.';
comment on column attempts.retain_digest is 'The token digest of whoever handed the workspace over. Never leaves the store.';
comment on column attempts.retain_content is 'SHA-256 of the hand-off''s meaning, to tell a repeat from another request.';

create table workspaces (
    handle text primary key,
    attempt_id uuid not null references attempts,
    device_id uuid not null references devices,
    leaked boolean not null,
    recorded_at timestamptz not null,
    reap_after timestamptz not null,
    sent_session bigint,
    sent_at timestamptz,
    reaped_at timestamptz,
    constraint handle_begins_with_its_attempt check (starts_with(handle, attempt_id::text)),
    constraint kept_for_a_day_at_most check (reap_after <= recorded_at + interval '24 hours'),
    constraint sent_to_a_session check ((sent_at is null) = (sent_session is null))
);
-- hand_off: an attempt is handed over once.
create unique index handed_over_workspaces on workspaces (attempt_id) where not leaked;
-- hand_off: how many were left beside it.
create index workspaces_of_attempt on workspaces (attempt_id);
-- claim_reaps: what is due on the connected devices.
create index workspaces_to_reap on workspaces (device_id, reap_after) where reaped_at is null;

comment on table workspaces is 'What ended attempts left on their devices: reaped when its time is over.';
comment on column workspaces.handle is 'What the device calls it; begins with the attempt''s id. Never used again.';
comment on column workspaces.attempt_id is 'Whose it was.';
comment on column workspaces.device_id is 'Where it is.';
comment on column workspaces.leaked is 'Recorded from a hand-off that was refused, so that it does not stay for ever.';
comment on column workspaces.recorded_at is 'When it was handed over.';
comment on column workspaces.reap_after is 'From then on the device is told to reap it.';
comment on column workspaces.sent_session is 'The session that was told last.';
comment on column workspaces.sent_at is 'When it was told.';
comment on column workspaces.reaped_at is 'When the device said that it is gone.';
