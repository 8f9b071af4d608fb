//! How what is told of a watched job looks from outside.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::job::JobStatus;
use fencepost_store::views::{JobEvent, JobNews, JobState};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::view::Waits;
use crate::http::openapi::Time;

/// How a watched job is, as in the job itself; the data of `status`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobState")]
pub(super) struct State {
    /// Where it stands.
    #[schemars(with = "JobStatus")]
    status: String,
    /// What its live attempt is doing.
    #[schemars(with = "Option<AttemptStatus>")]
    phase: Option<String>,
    /// How much of the phase is done, 0 to 100, if its Mac can tell.
    percent: Option<f32>,
    /// How many attempts it has had.
    attempts: i32,
    /// Why it waits, if it does.
    waiting: Option<Waits>,
}

/// Something that happened to a job; the data of every event but `status`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobEvent")]
pub(super) struct Event {
    /// Its place among all that happened to the job: the event's id.
    seq: i64,
    /// `attempt.event`, `attempt.artifact` or `job.…`, of which `job.succeeded`, `job.failed` and
    /// `job.cancelled` are the end. There may be more of them in time.
    #[serde(rename = "type")]
    kind: String,
    /// When it happened.
    at: Time,
    /// What there is to say about it.
    #[schemars(with = "Map<String, Value>")]
    data: Value,
}

/// What has happened to a job since, for programs that ask now and then.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EventPage {
    /// How the job is.
    state: State,
    /// What has happened, in order.
    events: Vec<Event>,
    /// What to ask with next time, as `after`.
    next_after: i64,
    /// Whether there is more already.
    has_more: bool,
    /// Whether the job has ended; then, and when there is no more, nothing will come.
    ended: bool,
}

impl State {
    /// As it is read.
    pub(super) fn of(state: &JobState) -> Self {
        Self {
            status: state.status.clone(),
            phase: state.phase.clone(),
            percent: state.percent,
            attempts: state.attempts,
            waiting: Waits::why(state.wake_at, state.waits.as_ref()),
        }
    }
}

impl Event {
    /// As it is read.
    pub(super) fn of(event: &JobEvent) -> Self {
        Self {
            seq: event.seq,
            kind: event.kind.clone(),
            at: Time(event.at),
            data: event.data.clone(),
        }
    }
}

impl EventPage {
    /// All that is new.
    pub(super) fn of(news: &JobNews) -> Self {
        let told_end = news.events.last().is_some_and(|event| event.terminal);
        Self {
            state: State::of(&news.state),
            events: news.events.iter().map(|event| Event::of(event)).collect(),
            next_after: news.through,
            has_more: news.has_more && !told_end,
            ended: news.ended_at.is_some(),
        }
    }
}
