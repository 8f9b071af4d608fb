-- A resume claims the lease too, also one that does not make it longer.
drop trigger lease_is_live_at_commit on attempts;
create constraint trigger lease_is_live_at_commit after update on attempts
    deferrable initially deferred for each row
    when (old.status in ('leased', 'downloading', 'running', 'uploading')
          and new.status not in ('lost', 'cancelled')
          and (old.status <> new.status or old.lease_expires_at < new.lease_expires_at
               or old.lease_epoch <> new.lease_epoch))
    execute function refuse_expired_claim();
