-- What a device is blamed for is said once: match rounds, buyers' waiting jobs and operators' lists judge
-- devices by it.
alter table devices add column forgiven_at timestamptz;
comment on column devices.forgiven_at is 'When an operator enabled it, perhaps again: how earlier attempts ended is not held against it.';

create function blame_of(a attempts) returns text
    language sql stable
    return case
        when a.returned then 'returned'
        -- The host was the buyer's choice, and says nothing of the device.
        when a.failure_code = 'download_failed' and exists (
            select from jobs j where j.id = a.job_id and j.inputs @? '$[*].host') then 'elsewhere'
        when a.failure_code = 'device_fault'
            or (a.charged and a.ended_at < a.leased_at + interval '1 minute') then 'failed'
        else 'none'
    end;
comment on function blame_of is 'How an attempt ended, as far as its device is to blame: returned, failed, none; elsewhere for a download from a host that the buyer chose.';
