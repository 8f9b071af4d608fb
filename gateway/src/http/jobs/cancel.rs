//! `POST /v1/jobs/{job}/cancel`.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::JobId;
use fencepost_domain::job::JobStatus;
use schemars::JsonSchema;
use serde::Serialize;

use super::job_id;
use crate::http::auth::Buyer;
use crate::http::body::{Fields, read_json};
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// A cancel says nothing but that.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cancel {}

/// What became of a job that was to be cancelled.
#[derive(Debug, Serialize, JsonSchema)]
struct CancelledJob {
    /// The job.
    id: JobId,
    /// Where it stands now: `cancelled`, `cancelling` until its Mac has stopped, or the end that it
    /// had already.
    status: JobStatus,
    /// Whether this cancel changed anything.
    changed: bool,
}

/// `POST /v1/jobs/{job}/cancel`.
pub(in crate::http) fn operation() -> Operation {
    Operation::post("/v1/jobs/{job}/cancel", "cancel_job", cancel)
        .says(
            "Cancel a job",
            "A queued job ends at once; a running one is `cancelling` until its Mac has stopped, and \
             cannot succeed any more. May be repeated: then nothing happens.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .takes(&Cancel {})
        .answers::<CancelledJob>(200, "What became of it.")
        .refuses(&[ProblemCode::NotFound])
}

async fn cancel(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    Fields::of_body(read_json(&request, payload).await?)?.finish()?;
    let job = job_id(&path)?;
    let cancelled = state.store.cancel_job(buyer.org, job).await?;
    let cancelled = cancelled.ok_or_else(|| Problem::not_found("job"))?;
    let answer = CancelledJob {
        id: job,
        status: cancelled.status,
        changed: cancelled.changed,
    };
    state.actors.job_cancelled(&cancelled);
    Ok(HttpResponse::Ok().json(answer))
}
