-- Where objects live in a bucket, bytes come by links that only the bucket judges: what a buyer sent
-- is an upload once it was copied and read, and large outputs come in parts.

alter table uploads
    add column declared_sha256 bytea,
    add column complete_by timestamptz,
    add column collect_after timestamptz,
    add column collections int not null default 0,
    add constraint declared_digest_is_sha256 check (octet_length(declared_sha256) = 32),
    add constraint collected_later check (collect_after is null or complete_by is not null);
comment on column uploads.declared_sha256 is 'What the buyer said that it would be, if anything; no other bytes are taken.';
comment on column uploads.complete_by is 'Until when bytes in a bucket can become this upload; null where they come through a gateway.';
comment on column uploads.collect_after is 'When what lies beside the upload in the bucket is deleted, the next time.';
comment on column uploads.collections is 'How often that was done.';
create index uploads_to_collect on uploads (collect_after) where collect_after is not null;

alter table attempts
    add column part_bytes bigint,
    add column multipart_id text,
    add constraint parts_have_a_size check (multipart_id is null or part_bytes > 0);
comment on column attempts.part_bytes is 'The size of the parts in which its output may come; null if links to parts were never asked for. Written before the upload is begun, so that one of which nobody wrote down the name is looked for.';
comment on column attempts.multipart_id is 'The bucket''s name of the upload in parts. Only what is declared in an accepted commit is ever made of it.';
