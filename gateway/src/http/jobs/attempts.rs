//! `GET /v1/jobs/{job}/attempts`: who worked on it. Never who holds what.

use actix_web::{HttpResponse, web};
use fencepost_domain::attempt::AttemptStatus;
use fencepost_store::views::{AttemptView, EventView};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::job_id;
use super::view::Failure;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Tag, Time, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// Every run of a job.
#[derive(Debug, Serialize, JsonSchema)]
struct Attempts {
    /// In order.
    attempts: Vec<Attempt>,
}

/// One run of a job on one device.
#[derive(Debug, Serialize, JsonSchema)]
struct Attempt {
    /// Its id.
    id: Uuid,
    /// Which one it is, from 1.
    attempt_number: i32,
    /// Where it runs.
    device: Device,
    /// The epoch of its lease; grows whenever somebody else may hold it.
    lease_epoch: i64,
    /// Where it stands.
    #[schemars(with = "AttemptStatus")]
    status: String,
    /// How much of the phase is done, 0 to 100.
    percent: Option<f32>,
    /// Whether it counts against `max_attempts`.
    charged: bool,
    /// Why it did not win.
    failure: Option<Failure>,
    /// When it was leased.
    leased_at: Time,
    /// When it ended.
    ended_at: Option<Time>,
    /// The last 100 events of its journal, in order.
    events: Vec<Event>,
}

/// A Mac.
#[derive(Debug, Serialize, JsonSchema)]
struct Device {
    /// Its id.
    id: Uuid,
    /// What its owner calls it.
    name: String,
}

/// What an attempt wrote into its journal.
#[derive(Debug, Serialize, JsonSchema)]
struct Event {
    /// Its place among all that happened to the job.
    seq: i64,
    /// What happened, such as `encoder.exit`.
    kind: String,
    /// What there is to say about it; the Mac's words, not ours.
    payload: Value,
    /// When it was written.
    at: Time,
}

/// `GET /v1/jobs/{job}/attempts`.
pub(in crate::http) fn operation() -> Operation {
    Operation::get("/v1/jobs/{job}/attempts", "list_attempts", attempts)
        .says(
            "Every run of a job",
            "Device, epoch, status, why it ended, and the last events of its journal.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .answers::<Attempts>(200, "The attempts.")
        .refuses(&[ProblemCode::NotFound])
}

/// All attempts of a job, in order, each with the last events of its journal.
async fn attempts(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let job = job_id(&path)?;
    let attempts = state.store.attempts(buyer.org, job).await?;
    let attempts = attempts.ok_or_else(|| Problem::not_found("job"))?;
    let events = state.store.attempt_events(buyer.org, job).await?;
    let shown = attempts.iter().map(|attempt| {
        let events = events.get(&attempt.id);
        Attempt::of(attempt, events.map_or(&[], Vec::as_slice))
    });
    Ok(HttpResponse::Ok().json(Attempts {
        attempts: shown.collect(),
    }))
}

impl Attempt {
    fn of(attempt: &AttemptView, events: &[EventView]) -> Self {
        Self {
            id: attempt.id,
            attempt_number: attempt.attempt_number,
            device: Device {
                id: attempt.device_id,
                name: attempt.device_name.clone(),
            },
            lease_epoch: attempt.lease_epoch,
            status: attempt.status.clone(),
            percent: attempt.percent,
            charged: attempt.charged,
            failure: Failure::of(
                attempt.failure_code.as_ref(),
                attempt.failure_message.as_ref(),
            ),
            leased_at: Time(attempt.leased_at),
            ended_at: attempt.ended_at.map(Time),
            events: events.iter().map(Event::of).collect(),
        }
    }
}

impl Event {
    fn of(event: &EventView) -> Self {
        Self {
            seq: event.job_seq,
            kind: event.kind.clone(),
            payload: event.payload.clone(),
            at: Time(event.recorded_at),
        }
    }
}
