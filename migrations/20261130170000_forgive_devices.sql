-- What a device is blamed for is said once: match rounds, buyers' waiting jobs and operators' lists judge
-- devices by it.
alter table devices add column forgiven_at timestamptz;
comment on column devices.forgiven_at is 'When an operator enabled it, perhaps again: how earlier attempts ended is not held against it.';

-- A function without a query of its own, which Postgres puts in the place of its call: rounds judge many
-- attempts. Only where a download failed is it asked whether the host was the buyer's choice.
create function blame_of(a attempts, elsewhere boolean) returns text
    language sql stable
    return case
        when a.returned then 'returned'
        when a.failure_code = 'download_failed' and elsewhere then 'elsewhere'
        when a.failure_code = 'device_fault'
            or (a.charged and a.ended_at < a.leased_at + interval '1 minute') then 'failed'
        else 'none'
    end;
comment on function blame_of is 'How an attempt ended, as far as its device is to blame: returned, failed, none; elsewhere for a download from a host that the buyer chose, which says nothing of the device.';
