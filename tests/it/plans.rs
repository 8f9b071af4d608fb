//! What is looked for again and again costs what is found, however much else there is.

use fencepost_tests::World;
use fencepost_tests::plans::{explain, rows_read};
use sqlx::{Connection as _, Executor as _, PgConnection};

/// Very many rows of which nothing is due. Keys to other rows are not looked at, and all of it is
/// rolled back.
const CROWD: &str = r"
    set local session_replication_role = replica;
    insert into jobs (id, org_id, service, params, inputs, metadata, lane, max_output_seconds,
        max_run_micros, max_attempts, admission_deadline, base_micros, per_minute_micros,
        provider_share_bps, held_micros, order_key, queue_key, wake_at, created_at)
    select gen_random_uuid(), o.id, 'noop.v1', '{}', '[]', '{}', 'x', 1, 1, 1,
        authority_now() + interval '1 day', 0, 0, 0, 0, authority_now(),
        case when n % 2 = 0 then authority_now() end,
        case when n % 2 = 1 then authority_now() + interval '1 minute' end, authority_now()
    from orgs o, generate_series(1, 5000) n;
    insert into attempts (id, job_id, org_id, device_id, provider_id, attempt_number, output_key,
        leased_at, run_deadline, session_number, status, lease_epoch, grant_expires_at, accepted_at,
        ended_at, collect_after, declared_key, declared_sha256, declared_size_bytes,
        verification_epoch, verification_started_at)
    select gen_random_uuid(), gen_random_uuid(), o.id, gen_random_uuid(), gen_random_uuid(), 1, 'k',
        t, t, 1, 'succeeded', 1, t, t, t, t + interval '30 days', 'k', sha256(''), 0, 1, t
    from orgs o, authority_now() t, generate_series(1, 5000) n;
    insert into attempts (id, job_id, org_id, device_id, provider_id, attempt_number, output_key,
        leased_at, run_deadline, session_number, status, lease_epoch, token_digest, grant_expires_at,
        accepted_at, lease_expires_at, check_after)
    select gen_random_uuid(), gen_random_uuid(), o.id, gen_random_uuid(), gen_random_uuid(), 1, 'k',
        t, t + interval '1 hour', 1, 'running', 1, sha256(''), t, t, t + interval '1 minute',
        t + interval '1 minute'
    from orgs o, authority_now() t, generate_series(1, 5000) n;
    insert into uploads (id, org_id, object_key, max_bytes, look_after, complete_by, collect_after)
    select gen_random_uuid(), o.id, 'uploads/' || n, 1, t + interval '7 days',
        t + interval '6 hours', t + interval '7 hours'
    from orgs o, authority_now() t, generate_series(1, 5000) n;
    insert into idempotency_keys (org_id, key, fingerprint, job_id)
    select o.id, n::text, sha256(''), gen_random_uuid() from orgs o, generate_series(1, 5000) n;
    insert into device_requests (device_id, operation, request_id, content)
    select gen_random_uuid(), 'claim', gen_random_uuid(), sha256('') from generate_series(1, 5000);
    insert into outbox (id, org_id, job_id, seq, kind, terminal, body, created_at)
    select gen_random_uuid(), o.id, gen_random_uuid(), 1, 'job.failed', true, '{}', authority_now()
    from orgs o, generate_series(1, 5000);
    insert into webhook_deliveries (endpoint_id, event_id, state, tries, round_tries, created_at)
    select gen_random_uuid(), id, 'succeeded', 1, 1, created_at from outbox;
    insert into webhook_tries (endpoint_id, event_id, number, claim, outcome, status, answer,
        duration_ms, at)
    select endpoint_id, event_id, 1, gen_random_uuid(), 'succeeded', 200, 'thanks', 1, created_at
    from webhook_deliveries;
    analyze";

/// A connection that has begun a transaction, and is the only one to see these rows.
async fn filled(world: &World, rows: &'static str) -> PgConnection {
    let conn = PgConnection::connect(world.db.url()).await;
    let mut conn = conn.expect("it lets us in");
    for statement in ["begin", rows] {
        let done = conn.execute(statement).await;
        done.expect("it is done");
    }
    conn
}

#[tokio::test]
async fn what_is_not_due_is_not_even_read() {
    let world = World::new().await;
    let mut crowd = filled(&world, CROWD).await;
    let nobody = format!("'{}'", uuid::Uuid::nil());
    for (name, arguments) in [
        ("collect_garbage", "100"),
        ("expire_files: lock", "100"),
        ("retire_uploads: lock accounts", "100"),
        ("collect_uploads", "100"),
        ("prune_keys", "100"),
        ("forget_requests", "100"),
        ("tend_queue: find", "200"),
        ("expire_due: lock", "100"),
        ("delete_job: answers", &nobody),
    ] {
        let plan = explain(&mut crowd, name, arguments).await;
        let most = plan.iter().map(rows_read).fold(0.0, f64::max);
        assert!(most <= 10.0, "{name} reads {most} rows: {plan:#?}");
    }
    let rollback = crowd.execute("rollback").await;
    rollback.expect("it is as if nothing had been");
}

/// Credits of one org, a minute apart; the requests' ids are their numbers.
const CREDITS: &str = r"
    set local session_replication_role = replica;
    insert into postings (kind, debit, credit, amount_micros, org_id, request_id, created_at)
    select 'credit', 'external', 'org_available', 1, o.id,
        ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid,
        '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 minute'
    from orgs o, generate_series(1, 5000) n;
    analyze";

#[tokio::test]
async fn a_page_of_a_journal_costs_a_page_wherever_it_is() {
    let world = World::new().await;
    let mut crowd = filled(&world, CREDITS).await;
    let org = world.org.0;
    let about = "'00000000-0000-0000-0000-000000002500'";
    for (page, before, period) in [
        ("the newest", "null", "null, null"),
        ("in the middle", "'credit'", "null, null"),
        (
            "of an hour long ago",
            "null",
            "'2026-01-01T01:00Z', '2026-01-01T02:00Z'",
        ),
    ] {
        let arguments = format!("'{org}', {before}, {period}, null, 50, {about}");
        let plan = explain(&mut crowd, "journal", &arguments).await;
        let most = plan.iter().map(rows_read).fold(0.0, f64::max);
        assert!(
            (50.0..=120.0).contains(&most),
            "{page}: {most} rows: {plan:#?}"
        );
    }
    let rollback = crowd.execute("rollback").await;
    rollback.expect("it is as if nothing had been");
}
