//! Whether the ledger adds up, over the whole database.
//!
//! Four statements that each read a table once or twice, in one read-only snapshot, so that what is
//! written meanwhile confuses nobody. Nothing is locked. Each statement may take five minutes.
//! Postings outlive the jobs that they are about: of those that were pruned only the sums are judged.

use sqlx::{Connection as _, PgConnection};

use crate::error::StoreError;
use crate::run::Store;

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerFinding {
    /// The rule, as a sentence.
    pub rule: String,
    /// The first ten that break it: ids of jobs, orgs or postings, or names.
    pub ids: Vec<String>,
}

/// What a check looked at, and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerCheck {
    /// Accounts of orgs.
    pub orgs: i64,
    /// Jobs.
    pub jobs: i64,
    /// Postings.
    pub postings: i64,
    /// Broken rules; empty is good.
    pub findings: Vec<LedgerFinding>,
}

/// One offender.
struct Broken {
    rule: String,
    id: String,
}

impl LedgerCheck {
    fn add(&mut self, broken: Vec<Broken>) {
        for Broken { rule, id } in broken {
            match self.findings.iter_mut().find(|known| known.rule == rule) {
                Some(known) => known.ids.push(id),
                None => self.findings.push(LedgerFinding {
                    rule,
                    ids: vec![id],
                }),
            }
        }
    }
}

impl Store {
    /// Looks whether the ledger adds up.
    pub async fn check_ledger(&self) -> Result<LedgerCheck, StoreError> {
        self.read("check_ledger", |mut conn| async move {
            let snapshot = "begin isolation level repeatable read, read only";
            let mut tx = conn.begin_with(snapshot).await?;
            sqlx::query!("set local statement_timeout = '5min'")
                .execute(&mut *tx)
                .await?;
            let mut check = count(&mut tx).await?;
            check.add(broken_protection(&mut tx).await?);
            check.add(broken_postings(&mut tx).await?);
            check.add(broken_accounts(&mut tx).await?);
            check.add(broken_jobs(&mut tx).await?);
            tx.commit().await?;
            Ok(check)
        })
        .await
    }
}

async fn count(conn: &mut PgConnection) -> Result<LedgerCheck, sqlx::Error> {
    let row = sqlx::query!(
        r#"-- check_ledger: count
        select (select count(*) from org_accounts) as "orgs!",
            (select count(*) from jobs) as "jobs!", (select count(*) from postings) as "postings!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(LedgerCheck {
        orgs: row.orgs,
        jobs: row.jobs,
        postings: row.postings,
        findings: Vec::new(),
    })
}

/// What keeps history as it is, and whether it is in force.
async fn broken_protection(conn: &mut PgConnection) -> Result<Vec<Broken>, sqlx::Error> {
    sqlx::query_as!(
        Broken,
        r#"-- check_ledger: protection
        select 'the triggers that keep history are in force, for everybody' as "rule!",
            t.relation || '.' || t.name as "id!"
        from (values ('postings', 'append_only'), ('postings', 'append_only_whole'),
                ('audit_log', 'append_only'), ('audit_log', 'append_only_whole'))
            as t(relation, name)
        where not exists (select from pg_trigger g where g.tgrelid = to_regclass(t.relation)
            and g.tgname = t.name and g.tgenabled = 'A')
        union all
        select 'the constraints that bind money are in force', c.relation || '.' || c.name
        from (values ('org_accounts', 'never_overdrawn'), ('postings', 'moves_something'),
                ('postings', 'kind_names_its_accounts'), ('postings', 'job_iff_not_credit'),
                ('postings', 'request_iff_credit'), ('postings', 'provider_iff_theirs'),
                ('jobs', 'money_is_not_negative'), ('jobs', 'share_is_a_part'))
            as c(relation, name)
        where not exists (select from pg_constraint k where k.conrelid = to_regclass(c.relation)
            and k.conname = c.name and k.convalidated)
        union all
        select 'the index that lets a job settle once is in force', 'at_most_one_of_a_kind_per_job'
        where not exists (select from pg_index i
            where i.indexrelid = to_regclass('at_most_one_of_a_kind_per_job')
                and i.indisunique and i.indisvalid)"#
    )
    .fetch_all(conn)
    .await
}

/// Postings by themselves.
async fn broken_postings(conn: &mut PgConnection) -> Result<Vec<Broken>, sqlx::Error> {
    sqlx::query_as!(
        Broken,
        r#"-- check_ledger: postings
        select 'a posting moves a positive amount between the two accounts of its kind' as "rule!",
            p.id::text as "id!"
        from postings p
        where amount_micros <= 0 or (kind, debit, credit) not in (
                ('credit', 'external', 'org_available'),
                ('hold', 'org_available', 'org_held'),
                ('capture_provider', 'org_held', 'provider'),
                ('capture_platform', 'org_held', 'platform'),
                ('release', 'org_held', 'org_available'))
            or (job_id is null) <> (kind = 'credit')
            or (provider_id is not null) <> (kind = 'capture_provider')
        order by p.id limit 10"#
    )
    .fetch_all(conn)
    .await
}

/// Accounts against the sums of their postings.
async fn broken_accounts(conn: &mut PgConnection) -> Result<Vec<Broken>, sqlx::Error> {
    sqlx::query_as!(
        Broken,
        r#"-- check_ledger: accounts
        with by_org as materialized (
            select org_id,
                coalesce(sum(amount_micros) filter (where credit = 'org_available'), 0)
                    - coalesce(sum(amount_micros) filter (where debit = 'org_available'), 0)
                    as available,
                coalesce(sum(amount_micros) filter (where credit = 'org_held'), 0)
                    - coalesce(sum(amount_micros) filter (where debit = 'org_held'), 0) as held
            from postings group by org_id
        ), pairs as materialized (
            select coalesce(o.org_id, p.org_id)::text as id, o.available_micros, o.held_micros,
                coalesce(p.available, 0) as available, coalesce(p.held, 0) as held
            from org_accounts o full join by_org p on p.org_id = o.org_id
        )
        (select 'an org''s account is the sum of its postings' as "rule!", id as "id!" from pairs
         where (available_micros, held_micros) is distinct from (available, held)
         order by id limit 10)
        union all
        (select 'an org''s open jobs are counted', o.org_id::text
         from org_accounts o left join (select org_id, count(*) as open from jobs
             where ended_at is null group by org_id) j on j.org_id = o.org_id
         where o.open_jobs <> coalesce(j.open, 0) order by o.org_id limit 10)
        union all
        (select 'an org''s stored bytes are counted', o.org_id::text
         from org_accounts o
             left join (select org_id, sum(size_bytes) as bytes from uploads
                 where deleted_at is null group by org_id) u on u.org_id = o.org_id
             left join (select org_id,
                     sum(coalesce(output_size_bytes, 0) + artifact_bytes) as bytes from jobs
                 where files_deleted_at is null group by org_id) j on j.org_id = o.org_id
         where o.stored_bytes <> coalesce(u.bytes, 0) + coalesce(j.bytes, 0)
         order by o.org_id limit 10)
        union all
        (select 'no balance is negative', id from pairs
         where least(available_micros, held_micros, available, held) < 0 order by id limit 10)"#
    )
    .fetch_all(conn)
    .await
}

/// Jobs against their postings.
async fn broken_jobs(conn: &mut PgConnection) -> Result<Vec<Broken>, sqlx::Error> {
    sqlx::query_as!(
        Broken,
        r#"-- check_ledger: jobs
        with by_job as materialized (
            select job_id, count(*) as rows,
                sum(amount_micros) filter (where kind = 'hold') as held,
                sum(amount_micros) filter (where kind = 'capture_provider') as provider,
                sum(amount_micros) filter (where kind = 'capture_platform') as platform,
                sum(amount_micros) filter (where kind = 'release') as released
            from postings where job_id is not null group by job_id
        ), pairs as materialized (
            select coalesce(j.id, p.job_id)::text as id, j.id is null as pruned,
                j.status::text as status, j.id is null or j.ended_at is not null as ended,
                j.held_micros, j.provider_share_bps,
                -- by the terms that were frozen at create: base and every started minute
                j.base_micros + j.per_minute_micros * least(
                    ceil(greatest(j.output_seconds, 0) / 60), 9223372036854775807)::numeric as price,
                coalesce(p.rows, 0) as rows,
                num_nonnulls(p.held, p.provider, p.platform, p.released) as kinds,
                coalesce(p.held, 0) as held, coalesce(p.provider, 0) as provider,
                coalesce(p.provider, 0) + coalesce(p.platform, 0) as captured,
                coalesce(p.released, 0) as released
            from jobs j full join by_job p on p.job_id = j.id
        )
        (select 'each kind is posted at most once for a job' as "rule!", id as "id!" from pairs
         where rows <> kinds order by id limit 10)
        union all
        (select 'exactly its hold was held for a job', id from pairs
         where not pruned and held <> held_micros order by id limit 10)
        union all
        (select 'a hold is captured and released to the last micro when its job has ended', id
         from pairs where ended and captured + released <> held order by id limit 10)
        union all
        (select 'nothing of a hold is captured or released while its job lives', id from pairs
         where not ended and captured + released <> 0 order by id limit 10)
        union all
        (select 'only a job that succeeded is paid for', id from pairs
         where captured <> 0 and status <> 'succeeded' order by id limit 10)
        union all
        (select 'what is captured is the price by the job''s own terms, or the whole hold', id
         from pairs where status = 'succeeded' and captured <> least(price, held_micros)
         order by id limit 10)
        union all
        (select 'the provider gets its part of what is captured, rounded down', id from pairs
         where not pruned and provider <> div(captured * provider_share_bps, 10000)
         order by id limit 10)
        union all
        (select 'the provider that is paid is the winning attempt''s', j.id::text
         from postings p join jobs j on j.id = p.job_id
             left join attempts a on a.id = j.winning_attempt_id
         where p.kind = 'capture_provider' and p.provider_id is distinct from a.provider_id
         order by j.id limit 10)
        union all
        (select 'a posting is of its job''s org', p.job_id::text
         from postings p join jobs j on j.id = p.job_id
         where p.org_id <> j.org_id order by p.job_id limit 10)"#
    )
    .fetch_all(conn)
    .await
}
