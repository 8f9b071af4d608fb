-- Whoever replaces a key wants to know whether somebody still uses the old one.

alter table api_keys add column last_used_at timestamptz;
comment on column api_keys.last_used_at is
    'When it last opened something, to the hour: written only if that is an hour ago. Null: never since this column came in.';
