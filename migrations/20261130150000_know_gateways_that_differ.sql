-- Two gateways with different keys or stores would sign links that the other one's readers cannot use.
-- Rows of before know nothing of either; a gateway that runs writes its own at its next start.
delete from gateways;
alter table gateways
    add column number bigint generated always as identity,
    add column link_key bytea not null,
    add column webhook_key bytea not null,
    add column object_store uuid not null,
    add constraint link_key_is_sha256 check (octet_length(link_key) = 32),
    add constraint webhook_key_is_sha256 check (octet_length(webhook_key) = 32);
comment on column gateways.number is 'In which order gateways began; minted under the lock of authority_state.';
comment on column gateways.link_key is 'A one-way fingerprint (HMAC-SHA-256 of a fixed text) of the key that signs links.';
comment on column gateways.webhook_key is 'The same of the key that seals webhook secrets.';
comment on column gateways.object_store is 'The random id in the marker of its folder or bucket.';
