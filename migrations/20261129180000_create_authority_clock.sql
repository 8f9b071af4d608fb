-- Forward only. A migration never rewrites a table that is in use: add, backfill, then drop in a
-- later one, so that an old and a new gateway can run side by side. Every column has a sentence.

-- The one clock of the system. Every comparison with an expiry reads it, after the row is locked.
-- Not now(): that is frozen when the transaction starts, and a transaction may wait for a lock.
create function authority_now() returns timestamptz
    language sql volatile parallel safe
    return clock_timestamp();
comment on function authority_now() is
    'The clock that decides about leases; read it after the lock, never before. Tests replace it.';
