//! What must hold after every test, whatever it did. Each query yields what breaks its sentence.

use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

const SENTENCES: [(&str, &str); 21] = [
    (
        "a job has at most one live attempt",
        "select job_id::text from attempts where ended_at is null group by job_id having count(*) > 1",
    ),
    (
        "a job has a live attempt exactly while it is active, verifying or cancelling",
        "select j.id || ' is ' || j.status from jobs j where
            (j.status in ('active', 'verifying', 'cancelling'))
            <> exists (select from attempts a where a.job_id = j.id and a.ended_at is null)",
    ),
    (
        "a job is verifying only with an attempt that is committing, and the other way round",
        "select j.id || ' is ' || j.status || ', its attempt ' || a.status
         from jobs j join attempts a on a.job_id = j.id and a.ended_at is null
         where j.status <> 'cancelling' and (j.status = 'verifying') <> (a.status = 'committing')",
    ),
    (
        "a job ends once, and the time of its end never changes",
        "select job_id || ': ' || string_agg(new_status, ', ') from test_job_history
         where new_ended_at is not null or old_ended_at is not null
         group by job_id having count(*) > 1",
    ),
    (
        "what was held is captured and released when the job ends, to the last micro and not before",
        "select j.id || ' is ' || j.status || ', held ' || j.held_micros || ', posted ' || p.posted
         from jobs j cross join lateral (
             select coalesce(sum(amount_micros) filter (where kind = 'hold'), 0) as held,
                 coalesce(sum(amount_micros) filter (where kind <> 'hold'), 0) as settled,
                 coalesce(string_agg(kind || ' ' || amount_micros, ', '), 'nothing') as posted
             from postings where job_id = j.id) p
         where p.held <> j.held_micros
             or p.settled <> case when j.ended_at is null then 0 else j.held_micros end",
    ),
    (
        "only a job that succeeded is paid for",
        "select p.job_id || ': ' || p.kind from postings p join jobs j on j.id = p.job_id
         where p.kind in ('capture_provider', 'capture_platform') and j.status <> 'succeeded'",
    ),
    (
        "the provider that is paid is the winning attempt's",
        "select p.job_id::text from postings p join jobs j on j.id = p.job_id
             join attempts a on a.id = j.winning_attempt_id
         where p.kind = 'capture_provider' and p.provider_id <> a.provider_id",
    ),
    (
        "an org's account is the sum of its postings",
        "select o.org_id || ': ' || o.available_micros || ' and ' || o.held_micros
         from org_accounts o cross join lateral (
             select coalesce(sum(case when credit = 'org_available' then amount_micros
                                      when debit = 'org_available' then -amount_micros end), 0) as available,
                 coalesce(sum(case when credit = 'org_held' then amount_micros
                                   when debit = 'org_held' then -amount_micros end), 0) as held
             from postings where org_id = o.org_id) p
         where (o.available_micros, o.held_micros) <> (p.available, p.held)",
    ),
    (
        "an org's account counts its open jobs and the bytes that it stores",
        "select o.org_id || ': ' || o.open_jobs || ' and ' || o.stored_bytes
         from org_accounts o cross join lateral (
             select (select count(*) from jobs where org_id = o.org_id and ended_at is null) as open,
                 (select coalesce(sum(size_bytes), 0) from uploads
                  where org_id = o.org_id and deleted_at is null)
                 + (select coalesce(sum(coalesce(output_size_bytes, 0) + artifact_bytes), 0) from jobs
                    where org_id = o.org_id and files_deleted_at is null) as bytes) u
         where (o.open_jobs, o.stored_bytes) <> (u.open, u.bytes)",
    ),
    (
        "a job's end is told exactly once, as it was",
        "select j.id || ' is ' || j.status || ', told ' || e.told from jobs j cross join lateral (
             select count(*) filter (where terminal) as ends,
                 count(*) filter (where terminal and kind = 'job.' || j.status
                     and body ->> 'status' = j.status::text and created_at = j.ended_at) as right_ends,
                 coalesce(string_agg(kind, ', '), 'nothing') as told
             from outbox where job_id = j.id) e
         where (e.ends, e.right_ends) <> ((j.ended_at is not null)::int, (j.ended_at is not null)::int)",
    ),
    (
        "events are numbered from 1 without a gap",
        "select j.id || ': ' || j.event_counter from jobs j cross join lateral (
             select count(distinct seq) as events, coalesce(max(seq), 0) as last from (
                 select seq from outbox where job_id = j.id
                 union all select job_seq from attempt_events where job_id = j.id
                 union all select job_seq from attempt_artifacts where job_id = j.id) e) e
         where (j.event_counter, j.event_counter) <> (e.events, e.last)",
    ),
    (
        "a delivery counts its tries, and is over when the last of them was a success",
        "select d.event_id || ' is ' || d.state || ', tried ' || d.tries
         from webhook_deliveries d cross join lateral (
             select count(*) as tries, coalesce(max(number), 0) as last,
                 coalesce((array_agg(outcome order by number desc))[1], 'none') as outcome
             from webhook_tries t
             where (t.endpoint_id, t.event_id) = (d.endpoint_id, d.event_id)) t
         where (d.tries, d.tries) <> (t.tries, t.last)
             or (d.state = 'succeeded' and t.outcome <> 'succeeded')",
    ),
    (
        "a device has no more live attempts than slots",
        "select d.id || ': ' || count(*) from devices d
             join attempts a on a.device_id = d.id and a.ended_at is null
         group by d.id having count(*) > d.slots",
    ),
    (
        "an org has no more live attempts than its limit",
        "select o.id || ': ' || count(*) from orgs o
             join attempts a on a.org_id = o.id and a.ended_at is null
         group by o.id having count(*) > o.max_live_attempts",
    ),
    (
        "the output is that of the winning attempt, which alone succeeded",
        "select j.id::text from jobs j where
            (select count(*) from attempts a where a.job_id = j.id and a.status = 'succeeded'
                and a.id = j.winning_attempt_id and a.declared_sha256 = j.output_sha256
                and a.declared_size_bytes = j.output_size_bytes
                and j.output_key not in (select output_key from attempts))
            <> (j.status = 'succeeded')::int
            or (select count(*) from attempts a where a.job_id = j.id and a.status = 'succeeded')
            <> (j.status = 'succeeded')::int",
    ),
    (
        "the budget counts the charged attempts and is never exceeded",
        "select j.id || ': ' || j.charged_attempts from jobs j
         where j.charged_attempts > j.max_attempts
             or j.charged_attempts <> (select count(*) from attempts where job_id = j.id and charged)",
    ),
    (
        "attempts are numbered from 1 without a gap, and their epochs rise with them",
        "select job_id::text from (
             select job_id, attempt_number, lease_epoch,
                 row_number() over w as place, lag(lease_epoch) over w as before
             from attempts window w as (partition by job_id order by attempt_number)) a
         where attempt_number <> place or lease_epoch <= before
         union all
         select id::text from jobs
         where attempt_counter <> (select count(*) from attempts where job_id = jobs.id)",
    ),
    (
        "no attempt has a higher epoch than its job ever gave out",
        "select a.id || ': ' || a.lease_epoch from attempts a join jobs j on j.id = a.job_id
         where a.lease_epoch > j.epoch_counter",
    ),
    (
        "events and artifacts are of their attempt's job, of an epoch that it had",
        "select e.attempt_id::text from (
             select attempt_id, lease_epoch, job_id from attempt_events
             union all
             select attempt_id, lease_epoch, job_id from attempt_artifacts) e
         join attempts a on a.id = e.attempt_id
         where e.job_id <> a.job_id or e.lease_epoch > a.lease_epoch",
    ),
    (
        "a workspace is of an attempt that has ended, on its device, and handed over or leaked",
        "select w.handle from workspaces w join attempts a on a.id = w.attempt_id
         where a.ended_at is null or w.device_id <> a.device_id
             or (not w.leaked and a.retain_epoch is null)
             or (w.leaked and w.reap_after <> w.recorded_at)",
    ),
    (
        "a live attempt is told to stop exactly while its job is being cancelled",
        "select a.id || ': ' || coalesce(a.stop_reason, 'none') || ', job ' || j.status
         from attempts a join jobs j on j.id = a.job_id
         where a.ended_at is null
             and (a.stop_reason is not distinct from 'buyer_cancelled') <> (j.status = 'cancelling')",
    ),
];

/// Everything in the database at `url` that breaks a sentence; empty is good.
pub async fn violations(url: &str) -> Vec<String> {
    let mut conn = PgConnection::connect(url)
        .await
        .expect("the test database lets us in");
    violations_on(&mut conn).await
}

/// The same on a connection that is at hand: one statement, so that it can be asked after every step.
pub async fn violations_on(conn: &mut PgConnection) -> Vec<String> {
    static ALL: LazyLock<String> = LazyLock::new(|| {
        let one = |(sentence, query): (&str, &str)| {
            format!("select $s${sentence}: $s$ || broken.what from ({query}) broken(what)")
        };
        SENTENCES.map(one).join(" union all ")
    });
    sqlx::query_scalar(AssertSqlSafe(ALL.as_str()))
        .fetch_all(conn)
        .await
        .unwrap_or_else(|error| panic!("the checker's sentences: {error}"))
}
