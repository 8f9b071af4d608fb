//! What is new about jobs that are watched: how they are, and what has happened to them since.

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_domain::ids::{JobId, OrgId};
use fencepost_domain::waiting::Waiting;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Store;

/// The most questions of one call that are answered with events; the others are told that there is
/// more, and ask again.
const MOST_BEHIND: usize = 32;
/// The most events in one answer.
pub const NEWS_PAGE: u32 = 32;

/// A job, and the last event of it that is known to whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NewsAfter {
    /// The job.
    pub job: JobId,
    /// Its place among all that happened to the job; 0 for everything.
    pub after: i64,
}

/// How a job is at the moment. This has no number: what changed in between is not told.
#[derive(Debug, Clone, PartialEq)]
pub struct JobState {
    /// Its status; an active job whose lease has run out counts as queued.
    pub status: String,
    /// The phase of its live attempt.
    pub phase: Option<String>,
    /// How much of the phase is done.
    pub percent: Option<f32>,
    /// How many attempts it has had.
    pub attempts: i32,
    /// When its delay ends, if it waits for one.
    pub wake_at: Option<OffsetDateTime>,
    /// Why else it waits, where somebody has asked.
    pub waits: Option<Waiting>,
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEvent {
    /// Its place among all that happened to the job.
    pub seq: i64,
    /// What it is: `attempt.event`, `attempt.artifact`, or `job.…`.
    pub kind: String,
    /// Whether it is the job's end, after which nothing comes.
    pub terminal: bool,
    /// What there is to say about it.
    pub data: Value,
    /// When it happened.
    pub at: OffsetDateTime,
}

/// The answer about one job.
#[derive(Debug, Clone)]
pub struct JobNews {
    /// Whose it is.
    pub org: OrgId,
    /// How it is.
    pub state: JobState,
    /// What a device must have to run it, if it could be leased now.
    pub ready_lane: Option<String>,
    /// The place of the last that has happened.
    pub last_seq: i64,
    /// When it ended.
    pub ended_at: Option<OffsetDateTime>,
    /// What has happened since, in order: at most [`NEWS_PAGE`].
    pub events: Vec<Arc<JobEvent>>,
    /// Where to go on: everything up to here is told.
    pub through: i64,
    /// Whether there is more already.
    pub has_more: bool,
}

/// The first statement's row.
struct Standing {
    id: Uuid,
    org_id: Uuid,
    status: String,
    phase: Option<String>,
    percent: Option<f32>,
    attempts: i32,
    wake_at: Option<OffsetDateTime>,
    ready_lane: Option<String>,
    last_seq: i64,
    ended_at: Option<OffsetDateTime>,
}

/// The second statement's row.
struct Happened {
    position: i64,
    seq: i64,
    kind: String,
    terminal: bool,
    data: Value,
    at: OffsetDateTime,
}

impl Store {
    /// What is new about jobs, in the order of the questions; `None` where there is no such job.
    ///
    /// One call is two statements, however many are asked about; how much it reads is bounded.
    pub async fn job_news(
        &self,
        asked: Vec<NewsAfter>,
    ) -> Result<Vec<Option<JobNews>>, StoreError> {
        let questions = asked.clone();
        let (standings, answered, happened) = self
            .read("job_news", move |mut conn| async move {
                let standings = standings(&mut conn, &questions).await?;
                let mut answered = behind(&questions, &standings);
                answered.truncate(MOST_BEHIND);
                let happened = happened(&mut conn, &questions, &answered).await?;
                Ok((standings, answered, happened))
            })
            .await?;
        let mut events: HashMap<usize, Vec<Arc<JobEvent>>> = answered
            .iter()
            .map(|&position| (position, Vec::new()))
            .collect();
        for one in happened {
            let place = usize::try_from(one.position - 1).ok();
            let position = place.and_then(|place| answered.get(place));
            if let Some(events) = position.and_then(|position| events.get_mut(position)) {
                events.push(Arc::new(one.event()));
            }
        }
        let answer = |(position, question): (usize, &NewsAfter)| {
            let standing = standings.get(&question.job.0)?;
            Some(standing.news(question.after, events.remove(&position)))
        };
        Ok(asked.iter().enumerate().map(answer).collect())
    }
}

impl Standing {
    /// The answer to who knows everything up to `after`; without `events` nobody looked for them.
    fn news(&self, after: i64, events: Option<Vec<Arc<JobEvent>>>) -> JobNews {
        let is_full = |events: &Vec<_>| events.len() >= NEWS_PAGE as usize;
        let last = events.as_ref().and_then(|events| events.last());
        let (through, has_more) = match (&events, last) {
            (None, _) => (after, after < self.last_seq),
            (Some(events), Some(last)) if is_full(events) => (last.seq, true),
            // Not all numbers need be there: what is no event of the job's is not told.
            (Some(_), Some(last)) => (last.seq.max(self.last_seq), false),
            (Some(_), None) => (after.max(self.last_seq), false),
        };
        JobNews {
            org: OrgId(self.org_id),
            state: JobState {
                status: self.status.clone(),
                phase: self.phase.clone(),
                percent: self.percent,
                attempts: self.attempts,
                wake_at: self.wake_at,
                waits: None,
            },
            ready_lane: self.ready_lane.clone(),
            last_seq: self.last_seq,
            ended_at: self.ended_at,
            events: events.unwrap_or_default(),
            through,
            has_more,
        }
    }
}

impl Happened {
    fn event(self) -> JobEvent {
        JobEvent {
            seq: self.seq,
            kind: self.kind,
            terminal: self.terminal,
            data: self.data,
            at: self.at,
        }
    }
}

/// The positions of the questions about jobs to which something has happened since.
fn behind(asked: &[NewsAfter], standings: &HashMap<Uuid, Standing>) -> Vec<usize> {
    let is_behind = |question: &NewsAfter| {
        let standing = standings.get(&question.job.0);
        standing.is_some_and(|standing| standing.last_seq > question.after)
    };
    let positions = asked.iter().enumerate();
    positions
        .filter(|(_, question)| is_behind(question))
        .map(|(position, _)| position)
        .collect()
}

async fn standings(
    conn: &mut sqlx::PgConnection,
    asked: &[NewsAfter],
) -> Result<HashMap<Uuid, Standing>, sqlx::Error> {
    let mut jobs: Vec<Uuid> = asked.iter().map(|question| question.job.0).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let rows = sqlx::query_as!(
        Standing,
        r#"-- job_news: standings
        select j.id, j.org_id,
            case when j.status = 'active' and a.lease_expires_at <= authority_now()
                then 'queued' else j.status::text end as "status!",
            case when a.status = 'committing' or a.lease_expires_at > authority_now()
                then a.status::text end as phase,
            case when a.lease_expires_at > authority_now() then a.percent end as percent,
            j.attempt_counter as attempts, j.wake_at, j.ended_at,
            case when j.queue_key is not null then j.lane end as ready_lane,
            -- nothing is told after the end
            case when j.ended_at is null then j.event_counter else coalesce(
                (select o.seq from outbox o where o.job_id = j.id and o.terminal),
                j.event_counter) end as "last_seq!"
        from jobs j left join attempts a on a.job_id = j.id and a.ended_at is null
        where j.id = any($1) and j.erased_at is null"#,
        &jobs
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// What has happened since. Places are minted under the job's lock, so what one snapshot shows has
/// no gaps that close later. The end is read from the job itself, since the outbox is pruned.
async fn happened(
    conn: &mut sqlx::PgConnection,
    asked: &[NewsAfter],
    positions: &[usize],
) -> Result<Vec<Happened>, sqlx::Error> {
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<Uuid> = positions
        .iter()
        .map(|&position| asked[position].job.0)
        .collect();
    let afters: Vec<i64> = positions
        .iter()
        .map(|&position| asked[position].after)
        .collect();
    sqlx::query_as!(
        Happened,
        r#"-- job_news: happened
        select w.position as "position!", e.seq as "seq!", e.kind as "kind!",
            e.terminal as "terminal!", e.data as "data!", e.at as "at!"
        from unnest($1::uuid[], $2::bigint[]) with ordinality as w(job_id, after, position)
        cross join lateral (
            (select e.job_seq as seq, 'attempt.event' as kind, false as terminal,
                jsonb_build_object('attempt_id', e.attempt_id, 'attempt_number', a.attempt_number,
                    'kind', e.kind, 'payload', e.payload) as data, e.recorded_at as at
             from attempt_events e join attempts a on a.id = e.attempt_id
             where e.job_id = w.job_id and e.job_seq > w.after order by e.job_seq limit $3)
            union all
            (select f.job_seq, 'attempt.artifact', false,
                jsonb_build_object('attempt_id', f.attempt_id, 'attempt_number', a.attempt_number,
                    'name', f.name, 'sha256', encode(f.sha256, 'hex'),
                    'size_bytes', f.size_bytes), f.recorded_at
             from attempt_artifacts f join attempts a on a.id = f.attempt_id
             where f.job_id = w.job_id and f.job_seq > w.after order by f.job_seq limit $3)
            union all
            (select o.seq, o.kind, false, o.body, o.created_at
             from outbox o
             where o.job_id = w.job_id and o.seq > w.after and not o.terminal
             order by o.seq limit $3)
            union all
            (select * from (
                select coalesce(
                    (select o.seq from outbox o where o.job_id = j.id and o.terminal),
                    j.event_counter) as seq,
                    'job.' || j.status, true,
                    jsonb_build_object('job_id', j.id, 'status', j.status, 'failure',
                        case when j.failure_code is not null then
                            jsonb_build_object('code', j.failure_code,
                                'message', j.failure_message) end,
                        'output', case when j.output_key is not null then
                            jsonb_build_object('sha256', encode(j.output_sha256, 'hex'),
                                'size_bytes', j.output_size_bytes,
                                'duration_seconds', j.output_seconds) end), j.ended_at
                from jobs j where j.id = w.job_id and j.ended_at is not null) ending
             where ending.seq > w.after)
            order by seq limit $3
        ) e
        order by w.position, e.seq"#,
        &jobs,
        &afters,
        i64::from(NEWS_PAGE)
    )
    .fetch_all(conn)
    .await
}
