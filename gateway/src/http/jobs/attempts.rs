//! `GET /v1/jobs/{job}/attempts`.

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use super::{job_id, view};
use crate::http::auth::Buyer;
use crate::http::problem::Problem;
use crate::http::state::AppState;

/// All attempts of a job, in order.
pub async fn attempts(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let attempts = state.store.attempts(buyer.org, job_id(&path)?).await?;
    let attempts = attempts.ok_or_else(|| Problem::not_found("job"))?;
    let attempts: Vec<Value> = attempts.iter().map(view::attempt).collect();
    Ok(HttpResponse::Ok().json(json!({ "attempts": attempts })))
}
