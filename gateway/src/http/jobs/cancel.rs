//! `POST /v1/jobs/{job}/cancel`.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::job_id;
use crate::http::auth::Buyer;
use crate::http::body::{Fields, read_json};
use crate::http::problem::Problem;
use crate::http::state::AppState;

/// Cancels; may be repeated. Answers what became of it: `cancelled` at once if the job waited,
/// `cancelling` until its agent has stopped, or the end that it had already.
pub async fn cancel(
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
    let answer = json!({
        "id": job,
        "status": cancelled.status,
        "changed": cancelled.changed,
    });
    state.actors.job_cancelled(&cancelled);
    Ok(HttpResponse::Ok().json(answer))
}
