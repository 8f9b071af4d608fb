-- An input is an upload, or is on a host of the buyer's, from where the device fetches it. Such an address
-- is sealed (its signature is as good as the file), and gone when the job has ended: nobody needs it then.
create function inputs_without_addresses(inputs jsonb) returns jsonb
    language sql immutable strict parallel safe
    return (
        select coalesce(jsonb_agg(i.input - 'sealed_url' order by i.number), '[]')
        from jsonb_array_elements(inputs) with ordinality i(input, number)
    );
alter table jobs
    add constraint every_input_is_an_upload_or_elsewhere check (
        not inputs @? '$[*] ? (exists(@.object_key) && exists(@.host))'
        and not inputs @? '$[*] ? (!exists(@.object_key) && !exists(@.host))'),
    add constraint addresses_are_of_inputs_elsewhere check
        (not inputs @? '$[*] ? (exists(@.sealed_url) && !exists(@.host))'),
    add constraint addresses_end_with_the_job check
        (ended_at is null or not inputs @? '$[*].sealed_url');
comment on function inputs_without_addresses is 'The inputs of a job that has ended.';

-- However a job ends, and also where a gateway ends it that is too old to know of addresses.
create function forget_addresses() returns trigger language plpgsql as $$
begin
    new.inputs := inputs_without_addresses(new.inputs);
    return new;
end $$;
create trigger addresses_are_forgotten before update on jobs for each row
    when (old.ended_at is null and new.ended_at is not null and new.inputs @? '$[*].sealed_url')
    execute function forget_addresses();

comment on column jobs.inputs is 'Array of {name, object_key, sha256, size_bytes} for uploads, and {name, host, sealed_url, sha256, size_bytes} for what is elsewhere: sha256 and size_bytes as far as the buyer says them; sealed_url, sealed with a key that only the gateways'' configuration has, until the job ends.';
