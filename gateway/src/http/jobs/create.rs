//! `POST /v1/jobs`.

use std::time::{Duration, Instant};

use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_actors::batch::BatchError;
use fencepost_domain::ids::{JobId, OrgId};
use fencepost_domain::job::JobStatus;
use fencepost_store::tx::submit_job::{IdempotencyKey, Submitted};
use fencepost_store::views::JobView;
use schemars::JsonSchema;
use serde::Serialize;

use super::order::Order;
use super::order_schema::JobOrder;
use super::view::{Job, Links};
use super::{headers, input, order};
use crate::http::auth::Buyer;
use crate::http::body::read_json;
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::Query;
use crate::http::state::AppState;

/// How often a waiting create looks at its job.
const LOOK: Duration = Duration::from_millis(500);

/// A job that was queued just now, and could not be read back.
#[derive(Debug, Serialize, JsonSchema)]
struct JobReceipt {
    /// Its id.
    id: JobId,
    /// Where it stood when it was made.
    status: JobStatus,
    /// What it holds.
    money: Held,
    /// Where to go from here.
    links: Links,
}

/// What a new job holds.
#[derive(Debug, Serialize, JsonSchema)]
struct Held {
    /// The highest price that it can cost.
    held_micros: i64,
}

/// A new job.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum CreatedJob {
    /// As it is now.
    Job(Box<Job>),
    /// The least that is known, if the database went away just after it was made.
    Receipt(JobReceipt),
}

/// `POST /v1/jobs`.
pub(in crate::http) fn operation() -> Operation {
    let operation = Operation::post("/v1/jobs", "create_job", create)
        .says(
            "Ask for work",
            "Queues a job, and holds the highest price that it can cost. With an `Idempotency-Key` it \
             may be sent again without making another job.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer);
    let operation = headers::parameters()
        .into_iter()
        .fold(operation, Operation::reads);
    operation
        .takes_any_of(&[
            ("upload", &JobOrder::example()),
            ("url", &JobOrder::example_elsewhere()),
            ("url_of_a_bundle", &JobOrder::example_of_a_bundle()),
        ])
        .answers::<CreatedJob>(201, "The job is queued.")
        .with_header("Location")
        .with_header("Preference-Applied")
        .answers::<Job>(200, "The job that the same request made before.")
        .with_header("Location")
        .with_header("Preference-Applied")
        .with_header(headers::REPLAYED)
        .refuses(&[
            ProblemCode::InsufficientFunds,
            ProblemCode::QuotaExceeded,
            ProblemCode::UploadIncomplete,
            ProblemCode::IdempotencyKeyReused,
            ProblemCode::Gone,
        ])
}

/// Queues a job and holds its price → 201 with the job and its links; 200 with the job that the same
/// request made before, if it has an idempotency key.
async fn create(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = read_json(&request, payload).await?;
    // A `?wait=20` that nobody takes is a wait that somebody relies on.
    Query::parse(request.query_string())?.finish()?;
    let wait = headers::wait(&request);
    let key = headers::idempotency(&request, &body)?;
    let order = order::read(body, &state.config)?;
    admit(&state, buyer.org, &order, key.as_ref()).await?;
    let order = order.of(buyer.org, key, &state.webhooks.vault);
    let new = order.id;
    let submitted = state.actors.shared().submit.call(order).await?;
    refusal(&submitted)?;
    let (job, mut answer) = match &submitted {
        Submitted::Replayed { job } => (*job, HttpResponse::Ok()),
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
    // The job exists: whatever goes wrong from here on must not look like a refusal of a new one.
    let shown = match (stored, submitted) {
        (Ok(Some(stored)), _) => CreatedJob::Job(Box::new(Job::of(&stored, None))),
        (Ok(None) | Err(_), Submitted::Queued { held_micros }) => {
            CreatedJob::Receipt(just_queued(job, held_micros))
        }
        (Err(error), _) => return Err(error.into()),
        (Ok(None), _) => return Err(deleted(job)),
    };
    Ok(answer
        .insert_header((LOCATION, format!("/v1/jobs/{job}")))
        .json(shown))
}

/// Judges the addresses of an order. A name may lead nowhere for a while: that is no reason to call a
/// request wrong which has made a job already.
async fn admit(
    state: &AppState,
    org: OrgId,
    order: &Order,
    key: Option<&IdempotencyKey>,
) -> Result<(), Problem> {
    let guard = state.webhooks.guarded.guard();
    let Err(refused) = input::admit(order.inputs(), guard).await else {
        return Ok(());
    };
    match key {
        Some(known) if state.store.is_key_taken(org, &known.key).await? => Ok(()),
        _ => Err(refused.into()),
    }
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

/// The same request made a job before, which its buyer has deleted: that is no reason for another one.
fn deleted(job: JobId) -> Problem {
    let detail = format!("this key made the job {job}, which you have deleted");
    Problem::new(ProblemCode::Gone, detail).at(headers::IDEMPOTENCY_KEY)
}

/// What is known of a new job without asking.
fn just_queued(job: JobId, held_micros: i64) -> JobReceipt {
    JobReceipt {
        id: job,
        status: JobStatus::Queued,
        money: Held { held_micros },
        links: Links::of(&job.to_string()),
    }
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
        Submitted::QuotaReached(full) => Err(Problem::quota(full)),
        Submitted::UnknownEndpoint => Err(Problem::new(
            ProblemCode::InvalidRequest,
            "your org has no such webhook endpoint: make one with POST /v1/webhook-endpoints",
        )
        .at("webhook.endpoint_id")),
        Submitted::UnknownUpload { input } => Err(Problem::new(
            ProblemCode::InvalidRequest,
            "your org has no such upload, or it was deleted",
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
