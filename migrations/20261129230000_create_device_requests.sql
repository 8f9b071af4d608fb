-- Leases outside the socket: a device asks over HTTP, in one process or in several.
create table device_requests (
    device_id uuid not null references devices,
    operation text not null,
    request_id uuid not null,
    content bytea not null,
    outcome jsonb,
    asked_at timestamptz not null default authority_now(),
    primary key (device_id, operation, request_id),
    constraint operation_is_known check
        (operation in ('claim', 'progress', 'renew', 'grant', 'commit', 'fail', 'release')),
    constraint content_is_sha256 check (octet_length(content) = 32)
);
-- forget_requests: the oldest first.
create index device_requests_by_age on device_requests (asked_at);
comment on table device_requests is 'What devices asked over HTTP, and what became of it: a repeat gets the same answer.';
comment on column device_requests.device_id is 'Who asked; nobody else''s requests have to do with these.';
comment on column device_requests.operation is 'What for: the same id may be used once for each.';
comment on column device_requests.request_id is 'What the device calls it.';
comment on column device_requests.content is 'SHA-256 of its meaning, to tell a repeat from another request.';
comment on column device_requests.outcome is 'The answer, without any secret; null only inside the transaction that works it out.';
comment on column device_requests.asked_at is 'When; two days later it is forgotten.';

alter table attempts
    add column claimed boolean not null default false,
    add column unpresented_claim uuid,
    add constraint only_claims_are_given_back_by_their_request check
        (unpresented_claim is null or claimed),
    add constraint claims_are_accepted check (not claimed or accepted_at is not null);
comment on column attempts.claimed is 'Whether it was claimed outside a session: no hello has to do with it.';
comment on column attempts.unpresented_claim is 'The claim''s request id, until its epoch is presented: with it the device may give back a lease whose secret never arrived.';
