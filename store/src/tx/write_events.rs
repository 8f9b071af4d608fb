//! Attempts write journal events.
//!
//! Locks: jobs, then attempts, by id. Checks: a stored row first (its writer's repeat is answered
//! from it, for ever), then the fence with token, and that the job is active. Writes: the event with
//! its writer, and the job's counter, which gives it its place.

use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::fencing::{LeaseClaim, Operation};
use fencepost_domain::ids::EventId;
use fencepost_domain::journal;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::in_turns;
use super::replay::{
    Found, FoundRow, Judged, Presented, answer_written, judge_item, write_journal,
};
pub use super::replay::{JournalAnswer, JournalRefusal};
use crate::error::StoreError;
use crate::fence::{WhereFacts, hex_digest};
use crate::rows::lock_pairs;
use crate::run::{Store, Transaction, Tx};

/// A journal event of an attempt.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Whose lease.
    pub claim: LeaseClaim,
    /// SHA-256 of the token that came with it.
    pub token: CommitTokenDigest,
    /// The writer's id for it.
    pub event_id: EventId,
    /// The writer's number for it.
    pub seq: i64,
    /// What happened.
    pub kind: String,
    /// What there is to say about it.
    pub payload: Value,
}

impl Store {
    /// Writes events; one answer for each, in order.
    pub async fn write_events(
        &self,
        events: Vec<NewEvent>,
    ) -> Result<Vec<JournalAnswer>, StoreError> {
        let items = events.into_iter().map(Item::new).collect();
        in_turns(
            self,
            items,
            |item: &Item| item.event.claim.attempt,
            |items| WriteEvents { items },
        )
        .await
    }
}

struct WriteEvents {
    items: Vec<Item>,
}

/// An event and what is wrong with it.
struct Item {
    event: NewEvent,
    problem: Option<JournalRefusal>,
}

impl Item {
    fn new(mut event: NewEvent) -> Self {
        let checked = journal::check_kind(&event.kind)
            .and_then(|()| journal::check_seq(event.seq))
            .and_then(|()| journal::clean_payload(event.payload.take()));
        let problem = match checked {
            Ok(payload) => {
                event.payload = payload;
                None
            }
            Err(problem) => Some(JournalRefusal::Invalid(problem)),
        };
        Self { event, problem }
    }
}

/// An event as it is looked up and written.
#[derive(Serialize)]
struct Row<'a> {
    position: usize,
    #[serde(flatten)]
    facts: Option<WhereFacts>,
    presented_attempt: uuid::Uuid,
    presented_epoch: i64,
    event_id: EventId,
    seq: i64,
    kind: &'a str,
    payload: &'a Value,
    writer: String,
}

impl<'a> Row<'a> {
    fn new(position: usize, event: &'a NewEvent, facts: Option<WhereFacts>) -> Self {
        Self {
            position,
            facts,
            presented_attempt: event.claim.attempt.0,
            presented_epoch: event.claim.epoch,
            event_id: event.event_id,
            seq: event.seq,
            kind: &event.kind,
            payload: &event.payload,
            writer: hex_digest(&event.token),
        }
    }
}

impl Row<'_> {
    /// Which item of the batch, about which attempt.
    fn at(&self) -> (usize, uuid::Uuid) {
        (self.position, self.presented_attempt)
    }
}

impl Transaction for WriteEvents {
    const NAME: &'static str = "write_events";
    type Output = Vec<JournalAnswer>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<_> = self
            .items
            .iter()
            .map(|item| item.event.claim.attempt)
            .collect();
        let locked = lock_pairs(tx, &ids).await?;
        let found = find(tx, &self.items).await?;
        let mut answers: Vec<Option<JournalAnswer>> = Vec::with_capacity(found.len());
        let mut writes = Vec::new();
        for (position, (item, found)) in self.items.iter().zip(&found).enumerate() {
            if let Some(problem) = &item.problem {
                answers.push(Some(JournalAnswer::Refused(problem.clone())));
                continue;
            }
            let event = &item.event;
            let presented = Presented {
                claim: &event.claim,
                token: &event.token,
                operation: Operation::Event,
            };
            let pair = locked.find(event.claim.attempt);
            answers.push(
                match judge_item(tx, pair, &presented, found, locked.clock()) {
                    Judged::Answer(answer) => Some(answer),
                    Judged::Write(_) if found.count >= journal::MAX_EVENTS => {
                        let full = journal::is_full("events", journal::MAX_EVENTS);
                        Some(JournalAnswer::Refused(JournalRefusal::Invalid(full)))
                    }
                    Judged::Write(facts) => {
                        writes.push(Row::new(position, event, Some(facts)));
                        None
                    }
                },
            );
        }
        write(tx, locked.now, &writes, &mut answers).await?;
        Ok(answers.into_iter().flatten().collect())
    }
}

/// What is stored under each event's attempt, epoch and id, in order. Read after the locks.
async fn find(tx: &mut Tx, items: &[Item]) -> Result<Vec<Found>, StoreError> {
    let rows = items.iter().enumerate();
    let rows: Vec<_> = rows
        .map(|(position, item)| Row::new(position, &item.event, None))
        .collect();
    let rows = sqlx::query!(
        r#"-- write_events: find
        select e.writer_digest as "writer_digest?", e.job_seq as "job_seq?",
            e.recorded_at as "recorded_at?",
            (e.kind = i.kind and e.seq = i.seq
                -- a recordset makes the JSON null an SQL one
                and (e.payload = coalesce(i.payload, 'null')
                    -- what its buyer has deleted can be compared with nothing any more
                    or exists (select from jobs j where j.id = e.job_id and j.erased_at is not null)))
                as identical,
            exists (select from attempt_events o
                where o.attempt_id = i.presented_attempt and o.lease_epoch = i.presented_epoch
                    and o.seq = i.seq) as "place_taken!",
            (select count(*) from attempt_events o
                where o.attempt_id = i.presented_attempt) as "count!"
        from jsonb_to_recordset($1) as i(position bigint, presented_attempt uuid,
            presented_epoch bigint, event_id uuid, seq bigint, kind text, payload jsonb)
        left join attempt_events e on e.attempt_id = i.presented_attempt
            and e.lease_epoch = i.presented_epoch and e.event_id = i.event_id
        order by i.position"#,
        to_json(&rows)?
    )
    .fetch_all(&mut **tx)
    .await?;
    let found = rows.into_iter().map(|row| Found {
        row: FoundRow::new(
            row.writer_digest.as_deref(),
            row.identical,
            row.job_seq,
            row.recorded_at,
        ),
        place_taken: row.place_taken,
        count: row.count,
    });
    Ok(found.collect())
}

async fn write(
    tx: &mut Tx,
    now: OffsetDateTime,
    writes: &[Row<'_>],
    answers: &mut [Option<JournalAnswer>],
) -> Result<(), StoreError> {
    if writes.is_empty() {
        return Ok(());
    }
    let written = write_journal!(
        "-- write_events: write",
        "event_id uuid, seq bigint, kind text, payload jsonb",
        r#"insert into attempt_events (attempt_id, lease_epoch, event_id, seq, job_id, job_seq, kind,
            payload, recorded_at, writer_digest)
        select h.attempt_id, h.epoch, h.event_id, h.seq, h.job_id, p.event_counter, h.kind,
            coalesce(h.payload, 'null'), $2, decode(h.writer, 'hex')"#,
        to_json(writes)?,
        now
    )
    .fetch_all(&mut **tx)
    .await?;
    let judged: Vec<_> = writes.iter().map(Row::at).collect();
    answer_written("attempt_events", &judged, &written, now, answers)
}

fn to_json(rows: &[Row<'_>]) -> Result<Value, StoreError> {
    serde_json::to_value(rows)
        .map_err(|error| StoreError::inconsistent("attempt_events", error.to_string()))
}
