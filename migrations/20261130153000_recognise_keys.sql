-- So that people can tell keys apart in a list, and find the one that leaked.
alter table api_keys add column hint text;
comment on column api_keys.hint is
    'How the key begins and its last four characters, for people; null if it was made before this was kept.';
