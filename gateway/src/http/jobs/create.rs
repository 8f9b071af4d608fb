//! `POST /v1/jobs`.

use std::time::{Duration, Instant};

use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_actors::batch::BatchError;
use fencepost_domain::ids::{JobId, OrgId};
use fencepost_store::tx::submit_job::Submitted;
use fencepost_store::views::JobView;
use serde_json::json;

use super::{headers, order, view};
use crate::http::auth::Buyer;
use crate::http::body::read_json;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// How often a waiting create looks at its job.
const LOOK: Duration = Duration::from_millis(500);

/// Queues a job and holds its price → 201 with the job and its links; 200 with the job that the same
/// request made before, if it has an idempotency key.
pub async fn create(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = read_json(&request, payload).await?;
    let wait = headers::wait(&request);
    let key = headers::idempotency(&request, &body)?;
    let order = order::read(body, &state.config)?.of(buyer.org, key);
    let new = order.id;
    let submitted = state.actors.shared().submit.call(order).await?;
    refusal(&submitted)?;
    let (job, mut answer) = match submitted {
        Submitted::Replayed { job } => (job, HttpResponse::Ok()),
        _ => (new, HttpResponse::Created()),
    };
    if job == new {
        state.actors.job_submitted();
    } else {
        answer.insert_header((headers::REPLAYED, "true"));
    }
    let stored = match wait {
        Some(wait) => {
            answer.insert_header(("Preference-Applied", format!("wait={}", wait.as_secs())));
            ended(&state, (buyer.org, job), wait).await
        }
        None => state.actors.shared().job.call((buyer.org, job)).await,
    };
    // The job exists: whatever goes wrong from here on must not look like a refusal.
    let shown = match stored {
        Ok(Some(stored)) => view::job(&stored, None),
        Ok(None) | Err(_) => just_queued(job, &submitted),
    };
    Ok(answer
        .insert_header((LOCATION, format!("/v1/jobs/{job}")))
        .json(shown))
}

/// The job when it has ended, or as it is when the wait is over.
async fn ended(
    state: &AppState,
    asked: (OrgId, JobId),
    wait: Duration,
) -> Result<Option<JobView>, BatchError> {
    let until = Instant::now() + wait;
    loop {
        let stored = state.actors.shared().job.call(asked).await?;
        let over = stored.as_ref().is_none_or(|job| job.ended_at.is_some());
        let left = until.saturating_duration_since(Instant::now());
        if over || left.is_zero() {
            return Ok(stored);
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

/// What is known of a job without asking again.
fn just_queued(job: JobId, submitted: &Submitted) -> serde_json::Value {
    let held_micros = match submitted {
        Submitted::Queued { held_micros } => Some(*held_micros),
        Submitted::Replayed { .. }
        | Submitted::KeyReused
        | Submitted::InsufficientCredit { .. }
        | Submitted::UnknownUpload { .. }
        | Submitted::IncompleteUpload { .. } => None,
    };
    json!({
        "id": job,
        "status": "queued",
        "money": { "held_micros": held_micros },
        "links": view::links(&job.to_string()),
    })
}

/// What a create is refused with, if it is.
pub(super) fn refusal(submitted: &Submitted) -> Result<(), Problem> {
    match submitted {
        Submitted::Queued { .. } | Submitted::Replayed { .. } => Ok(()),
        Submitted::KeyReused => Err(Problem::new(
            ProblemCode::IdempotencyKeyReused,
            "this key was used for another request; send a new key with a new request",
        )
        .at(headers::IDEMPOTENCY_KEY)),
        Submitted::InsufficientCredit {
            needed_micros,
            available_micros,
        } => Err(Problem::new(
            ProblemCode::InsufficientFunds,
            format!(
                "the job needs a hold of {needed_micros} micros, and {available_micros} are \
                 available: add credit, or lower limits.max_output_seconds"
            ),
        )),
        Submitted::UnknownUpload { input } => Err(Problem::new(
            ProblemCode::InvalidRequest,
            "your org has no such upload",
        )
        .at(upload_field(input))),
        Submitted::IncompleteUpload { input } => Err(Problem::new(
            ProblemCode::UploadIncomplete,
            "PUT the file to the upload's url first",
        )
        .at(upload_field(input))),
    }
}

fn upload_field(input: &str) -> String {
    format!("inputs.{input}.upload_id")
}
