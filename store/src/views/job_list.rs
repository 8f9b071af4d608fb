//! An org's jobs, page by page. A page costs the same however many jobs there are: candidates come
//! from an index in the order of the page, and at most [`MOST_EXAMINED`] of them are looked at.

use fencepost_domain::ids::{JobId, OrgId};
use sqlx::PgConnection;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::JobView;
use crate::error::StoreError;
use crate::run::Store;

/// How many jobs are looked at for one page; then it ends, however few it holds.
pub const MOST_EXAMINED: i64 = 10_000;
/// A job's id begins with the time of the gateway that made it. However wrong that clock was, it was
/// not wrong by more.
const ID_SKEW: Duration = Duration::DAY;

/// Which jobs to list.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only those in this stored status.
    pub status: Option<String>,
    /// Only those of this service.
    pub service: Option<String>,
    /// Only those whose metadata has all of these keys with these values.
    pub metadata: Vec<(String, String)>,
    /// Only those that were posted later.
    pub created_after: Option<OffsetDateTime>,
    /// Only those that were posted earlier.
    pub created_before: Option<OffsetDateTime>,
    /// Only those before this one (newest come first).
    pub before: Option<JobId>,
    /// At most so many.
    pub limit: i64,
}

/// A page of jobs.
#[derive(Debug, Clone)]
pub struct JobPage {
    /// Newest first.
    pub jobs: Vec<JobView>,
    /// What the next page comes before, if there may be one. A page may be short, or empty, and not be
    /// the last.
    pub next: Option<JobId>,
}

/// The part of an index that a page is taken from; ids grow with time.
#[derive(Debug, Clone, Copy)]
struct Range {
    from: Uuid,
    before: Uuid,
}

impl JobFilter {
    fn range(&self) -> Range {
        let first_of = |at: OffsetDateTime| {
            let ms = u128::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
            Uuid::from_u128(ms.min((1 << 48) - 1) << 80)
        };
        let earliest = self.created_after.and_then(|at| at.checked_sub(ID_SKEW));
        let latest = self.created_before.and_then(|at| at.checked_add(ID_SKEW));
        let cursor = self.before.map_or(Uuid::max(), |job| job.0);
        Range {
            from: earliest.map_or(Uuid::nil(), first_of),
            before: latest.map_or(cursor, |at| cursor.min(first_of(at))),
        }
    }
}

impl Store {
    /// A page of `org`'s jobs, newest first.
    pub async fn job_page(&self, org: OrgId, filter: JobFilter) -> Result<JobPage, StoreError> {
        let (found, next) = self
            .read("job_page", move |mut conn| async move {
                let range = filter.range();
                // One more than asked for tells whether there is another page.
                let limit = filter.limit.saturating_add(1);
                let mut found = if filter.metadata.is_empty() {
                    find(&mut conn, org, &filter, range, limit).await?
                } else {
                    find_by_words(&mut conn, org, &filter, range, limit).await?
                };
                let wanted = usize::try_from(filter.limit).unwrap_or(usize::MAX);
                if found.len() > wanted {
                    found.truncate(wanted);
                    let last = found.last().copied();
                    return Ok((found, last));
                }
                let edge = if let [(key, value), ..] = filter.metadata.as_slice() {
                    edge_of_word(&mut conn, org, (key, value), range).await?
                } else {
                    edge(&mut conn, org, range).await?
                };
                Ok((found, edge))
            })
            .await?;
        let asked = found.into_iter().map(|id| (org, JobId(id))).collect();
        let jobs = self.jobs_by_id(asked).await?;
        Ok(JobPage {
            jobs: jobs.into_iter().flatten().collect(),
            next: next.map(JobId),
        })
    }
}

async fn find(
    conn: &mut PgConnection,
    org: OrgId,
    filter: &JobFilter,
    range: Range,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"-- job_page: find
        select j.id as "id!" from (
            select id, status, service, created_at, erased_at from jobs
            where org_id = $1 and id >= $2 and id < $3 order by id desc limit $4
        ) j
        where j.erased_at is null
            and ($5::text is null or j.status::text = $5) and ($6::text is null or j.service = $6)
            and ($7::timestamptz is null or j.created_at > $7)
            and ($8::timestamptz is null or j.created_at < $8)
        order by j.id desc limit $9"#,
        org.0,
        range.from,
        range.before,
        MOST_EXAMINED,
        filter.status,
        filter.service,
        filter.created_after,
        filter.created_before,
        limit
    )
    .fetch_all(conn)
    .await
}

/// Candidates are the jobs of the first word.
async fn find_by_words(
    conn: &mut PgConnection,
    org: OrgId,
    filter: &JobFilter,
    range: Range,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    let (keys, values): (Vec<String>, Vec<String>) = filter.metadata.iter().cloned().unzip();
    sqlx::query_scalar!(
        r#"-- job_page: find by words
        select w.job_id as "id!" from (
            select job_id from job_words
            where org_id = $1 and word = job_word(($10::text[])[1], ($11::text[])[1])
                and job_id >= $2 and job_id < $3
            order by job_id desc limit $4
        ) w
        cross join lateral (select status, service, created_at from jobs where id = w.job_id) j
        where ($5::text is null or j.status::text = $5) and ($6::text is null or j.service = $6)
            and ($7::timestamptz is null or j.created_at > $7)
            and ($8::timestamptz is null or j.created_at < $8)
            and not exists (
                select from unnest($10::text[], $11::text[]) as also(key, value)
                where not exists (
                    select from job_words o where o.org_id = $1 and o.job_id = w.job_id
                        and o.word = job_word(also.key, also.value)))
        order by w.job_id desc limit $9"#,
        org.0,
        range.from,
        range.before,
        MOST_EXAMINED,
        filter.status,
        filter.service,
        filter.created_after,
        filter.created_before,
        limit,
        &keys,
        &values
    )
    .fetch_all(conn)
    .await
}

/// The last job that was looked at, if there may be more behind it.
async fn edge(
    conn: &mut PgConnection,
    org: OrgId,
    range: Range,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"-- job_page: edge
        select id from jobs where org_id = $1 and id >= $2 and id < $3
        order by id desc offset $4 limit 1"#,
        org.0,
        range.from,
        range.before,
        MOST_EXAMINED - 1
    )
    .fetch_optional(conn)
    .await
}

async fn edge_of_word(
    conn: &mut PgConnection,
    org: OrgId,
    (key, value): (&str, &str),
    range: Range,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"-- job_page: edge of word
        select job_id from job_words
        where org_id = $1 and word = job_word($5, $6) and job_id >= $2 and job_id < $3
        order by job_id desc offset $4 limit 1"#,
        org.0,
        range.from,
        range.before,
        MOST_EXAMINED - 1,
        key,
        value
    )
    .fetch_optional(conn)
    .await
}
