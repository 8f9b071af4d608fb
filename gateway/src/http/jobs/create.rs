//! `POST /v1/jobs`.

use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::JobId;
use fencepost_store::tx::submit_job::Submitted;
use serde_json::json;

use super::{order, view};
use crate::http::auth::Buyer;
use crate::http::body::read_json;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// Queues a job and holds its price → 201 with the job and its links.
pub async fn create(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = read_json(&request, payload).await?;
    let order = order::read(body, &state.config)?.of(buyer.org);
    let job = order.id;
    let submitted = state.actors.shared().submit.call(order).await?;
    refusal(&submitted)?;
    state.actors.job_submitted();
    // The job exists: whatever goes wrong from here on must not look like a refusal.
    let shown = match state.actors.shared().job.call((buyer.org, job)).await {
        Ok(Some(stored)) => view::job(&stored),
        Ok(None) | Err(_) => just_queued(job, &submitted),
    };
    Ok(HttpResponse::Created()
        .insert_header((LOCATION, format!("/v1/jobs/{job}")))
        .json(shown))
}

/// What is known of a job without asking again.
fn just_queued(job: JobId, submitted: &Submitted) -> serde_json::Value {
    let held_micros = match submitted {
        Submitted::Queued { held_micros } => Some(*held_micros),
        Submitted::InsufficientCredit { .. }
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

fn refusal(submitted: &Submitted) -> Result<(), Problem> {
    match submitted {
        Submitted::Queued { .. } => Ok(()),
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
