//! `GET /v1/jobs/{job}/attempts` and `/artifacts`: who worked on it, and what they wrote besides the
//! output. Never who holds what.

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use super::{job_id, view};
use crate::http::auth::Buyer;
use crate::http::problem::Problem;
use crate::http::state::AppState;

/// All attempts of a job, in order, each with the last events of its journal.
pub async fn attempts(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let job = job_id(&path)?;
    let attempts = state.store.attempts(buyer.org, job).await?;
    let attempts = attempts.ok_or_else(|| Problem::not_found("job"))?;
    let events = state.store.attempt_events(buyer.org, job).await?;
    let attempts: Vec<Value> = attempts
        .iter()
        .map(|attempt| view::attempt(attempt, events.get(&attempt.id).map_or(&[], Vec::as_slice)))
        .collect();
    Ok(HttpResponse::Ok().json(json!({ "attempts": attempts })))
}

/// All artifacts of a job, in order, each with a link while its bytes are kept.
pub async fn artifacts(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let artifacts = state.store.artifacts(buyer.org, job_id(&path)?).await?;
    let artifacts = artifacts.ok_or_else(|| Problem::not_found("job"))?;
    let artifacts: Vec<Value> = artifacts
        .into_iter()
        .map(|artifact| {
            let link = artifact
                .is_kept
                .then(|| state.output_link(artifact.object_key.clone(), artifact.link_expires_at));
            view::artifact(&artifact, link.as_deref())
        })
        .collect();
    Ok(HttpResponse::Ok().json(json!({ "artifacts": artifacts })))
}
