//! What a clock that was ahead has written is brought back to the present.
//!
//! Leases that it gave, verifications that it began, jobs that it put to sleep and webhooks that wait
//! would otherwise last for as long as the clock was ahead. They are cut to what they could be at most if they began
//! now, so nobody who works honestly loses anything by it: an agent counts a lease from when it asked.
//!
//! Locks: waiting jobs, by id, skipping those that others hold; then live attempts, by id;
//! then webhook endpoints and deliveries, skipping those that others hold. Checks:
//! that they begin in the future. Writes: their ends. Running it twice, or for nothing, does no harm.

use fencepost_domain::ending::MAX_DELAY;
use fencepost_domain::webhook::{LONGEST_REST, RETRIES};
use time::OffsetDateTime;

use crate::error::StoreError;
use crate::run::{Share, Store, Transaction, Tx};

/// How much was brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PulledBack {
    /// Waiting jobs.
    pub jobs: u64,
    /// Live attempts.
    pub attempts: u64,
}

impl Store {
    /// Brings what begins in the future back to the present.
    pub async fn pull_back(&self) -> Result<PulledBack, StoreError> {
        self.execute(PullBack).await
    }
}

struct PullBack;

impl Transaction for PullBack {
    const NAME: &'static str = "pull_back";
    const SHARE: Share = Share::Reserved;
    type Output = PulledBack;

    async fn run(&self, tx: &mut Tx) -> Result<PulledBack, StoreError> {
        let now = sqlx::query_scalar!(
            r#"-- pull_back: clock
            select authority_now() as "now!""#
        )
        .fetch_one(&mut **tx)
        .await?;
        let jobs = jobs(tx, now).await?;
        let attempts = attempts(tx, now).await?;
        deliveries(tx, now).await?;
        Ok(PulledBack { jobs, attempts })
    }
}

async fn jobs(tx: &mut Tx, now: OffsetDateTime) -> Result<u64, StoreError> {
    let latest = now + MAX_DELAY;
    let written = sqlx::query!(
        r#"-- pull_back: jobs
        with j as materialized (
            select id from jobs where wake_at > $1 order by id for no key update skip locked
        )
        update jobs set wake_at = $1 from j where jobs.id = j.id"#,
        latest
    );
    Ok(written.execute(&mut **tx).await?.rows_affected())
}

async fn attempts(tx: &mut Tx, now: OffsetDateTime) -> Result<u64, StoreError> {
    let settings = tx.settings.clone();
    let written = sqlx::query!(
        r#"-- pull_back: attempts
        with a as materialized (
            select id from attempts
            where ended_at is null and (leased_at > $1
                or verify_until > $1::timestamptz + $4::bigint * interval '1 microsecond')
            order by id for no key update
        ), clock as materialized (
            select authority_now() as now from (select count(*) from a) all_are_locked
        )
        update attempts t set
            leased_at = least(t.leased_at, clock.now),
            run_deadline = least(t.run_deadline,
                clock.now + j.max_run_micros * interval '1 microsecond'),
            lease_expires_at = least(t.lease_expires_at, clock.now
                + (case when t.accepted_at is null then $2::bigint else $3::bigint end)
                    * interval '1 microsecond'),
            verify_until = case when t.verify_until is not null then least(t.verify_until,
                clock.now + $4::bigint * interval '1 microsecond') end,
            check_after = least(t.check_after, clock.now)
        from a, clock, jobs j where t.id = a.id and j.id = t.job_id"#,
        now,
        settings.offer_accept.micros(),
        settings.lease_ttl.micros(),
        settings.verification_takeover.micros()
    );
    Ok(written.execute(&mut **tx).await?.rows_affected())
}

/// Webhooks that wait, and endpoints that rest, longer than they ever would.
async fn deliveries(tx: &mut Tx, now: OffsetDateTime) -> Result<(), StoreError> {
    let longest = RETRIES.into_iter().max().unwrap_or_default() * 2;
    sqlx::query!(
        r#"-- pull_back: endpoints
        with e as materialized (
            select id from webhook_endpoints where rest_until > $1
            order by id for no key update skip locked
        )
        update webhook_endpoints set rest_until = null from e where webhook_endpoints.id = e.id"#,
        now + LONGEST_REST
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        r#"-- pull_back: deliveries
        with d as materialized (
            select endpoint_id, event_id from webhook_deliveries
            -- what was never tried is due when it is written
            where next_at > $1 and claim is null and (round_tries = 0 or next_at > $2)
            order by endpoint_id, event_id for no key update skip locked
        )
        update webhook_deliveries t set next_at = $1 from d
        where (t.endpoint_id, t.event_id) = (d.endpoint_id, d.event_id) and t.next_at > $1"#,
        now,
        now + longest
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
