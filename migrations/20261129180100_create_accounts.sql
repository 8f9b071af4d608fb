create table orgs (
    id uuid primary key,
    name text not null unique,
    max_live_attempts bigint,
    created_at timestamptz not null default authority_now(),
    constraint name_is_readable check (length(name) between 1 and 200),
    constraint limit_is_positive check (max_live_attempts > 0)
);
comment on table orgs is 'A buyer''s account; also the scope of leases and limits.';
comment on column orgs.name is 'What people call it.';
comment on column orgs.max_live_attempts is 'Most attempts at once; null is no limit.';
comment on column orgs.created_at is 'When it was opened.';

create table api_keys (
    id uuid primary key,
    org_id uuid not null references orgs,
    digest bytea not null unique,
    created_at timestamptz not null default authority_now(),
    revoked_at timestamptz,
    constraint digest_is_sha256 check (octet_length(digest) = 32)
);
comment on table api_keys is 'Buyers'' keys (fp_live_, fp_test_), each shown once.';
comment on column api_keys.org_id is 'Whose key it is.';
comment on column api_keys.digest is 'SHA-256 of the key; the key itself is nowhere.';
comment on column api_keys.created_at is 'When it was made.';
comment on column api_keys.revoked_at is 'From then on it opens nothing.';

create table providers (
    id uuid primary key,
    name text not null unique,
    created_at timestamptz not null default authority_now(),
    constraint name_is_readable check (length(name) between 1 and 200)
);
comment on table providers is 'An account that owns devices and earns.';
comment on column providers.name is 'What people call it.';
comment on column providers.created_at is 'When it was opened.';

create table devices (
    id uuid primary key,
    provider_id uuid not null references providers,
    name text not null,
    own_org_id uuid references orgs,
    labels text[] not null default '{}',
    token_digest bytea unique,
    enabled boolean not null default true,
    draining boolean not null default false,
    slots int not null default 0,
    words text[] not null default '{}',
    session_counter bigint not null default 0,
    current_session bigint,
    instance_id uuid,
    agent_version text,
    connected_at timestamptz,
    created_at timestamptz not null default authority_now(),
    constraint name_is_readable check (length(name) between 1 and 200),
    constraint digest_is_sha256 check (octet_length(token_digest) = 32),
    constraint slots_are_few check (slots between 0 and 64),
    constraint session_was_minted check (current_session <= session_counter)
);
create index devices_of_provider on devices (provider_id);
comment on table devices is 'One Mac. Touched at connect, by rounds (lock only) and by operators; never by work.';
comment on column devices.provider_id is 'Who owns it and earns.';
comment on column devices.name is 'What its owner calls it.';
comment on column devices.own_org_id is 'The org whose own device this is, for jobs that ask for own devices.';
comment on column devices.labels is 'What an operator called it, for placement.';
comment on column devices.token_digest is 'SHA-256 of the device token; null once it is void.';
comment on column devices.enabled is 'False: no session, no lease.';
comment on column devices.draining is 'True: no new lease; what it holds goes on.';
comment on column devices.slots is 'How many attempts it takes at once, as its agent said.';
comment on column devices.words is 'Everything it has proven or been called; a job''s lane must be within it.';
comment on column devices.session_counter is 'The highest session number ever given out.';
comment on column devices.current_session is 'The session that said hello last by number; only it is leased to.';
comment on column devices.instance_id is 'The agent process of the current session.';
comment on column devices.agent_version is 'The agent''s version at its last hello.';
comment on column devices.connected_at is 'When the current session said hello.';
comment on column devices.created_at is 'When it was first paired.';

create table enrollment_codes (
    id uuid primary key,
    provider_id uuid not null references providers,
    device_id uuid references devices,
    own_org_id uuid references orgs,
    labels text[] not null default '{}',
    digest bytea not null unique,
    expires_at timestamptz not null,
    used_at timestamptz,
    constraint digest_is_sha256 check (octet_length(digest) = 32)
);
comment on table enrollment_codes is 'One-use codes (fp_pair_) that turn into a device token.';
comment on column enrollment_codes.provider_id is 'Who will own the device.';
comment on column enrollment_codes.device_id is 'The device to pair again; null makes a new one. Set when used.';
comment on column enrollment_codes.own_org_id is 'Given to the device.';
comment on column enrollment_codes.labels is 'Given to the device.';
comment on column enrollment_codes.digest is 'SHA-256 of the code.';
comment on column enrollment_codes.expires_at is 'From then on it opens nothing.';
comment on column enrollment_codes.used_at is 'Set once, by the pairing that used it.';
