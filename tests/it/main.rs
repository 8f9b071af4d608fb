//! The integration tests: real Postgres, one database for each test, what must always hold checked
//! after every one. One binary, because it is linked once.

mod architecture;
mod bucket;
mod cancel;
mod claims;
mod clock;
mod clock_accept;
mod clock_ahead;
mod commit;
mod crowd;
mod deadlocks;
mod fail;
mod fence_modes;
mod gateways;
mod give_back;
mod idempotency;
mod job_list;
mod keeping;
mod leasing;
mod ledger;
mod limits;
mod money;
mod news;
mod one_reading;
mod pairing;
mod progress;
mod races;
mod renewals;
mod replay;
mod requests;
mod retention;
mod revoke;
mod rounds;
mod schema;
mod unknown_commits;
mod webhooks;
