//! `GET /v1/jobs/{job}`.

use actix_web::{HttpResponse, web};

use super::{job_id, view};
use crate::http::auth::Buyer;
use crate::http::problem::Problem;
use crate::http::state::AppState;

/// One job: how far it is, or why it waits.
pub async fn get(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let asked = (buyer.org, job_id(&path)?);
    let job = state.actors.shared().job.call(asked).await?;
    let job = job.ok_or_else(|| Problem::not_found("job"))?;
    let waiting = if job.is_ready {
        let asked = (buyer.org, job.lane.clone());
        state.actors.shared().waiting.call(asked).await?
    } else {
        None
    };
    Ok(HttpResponse::Ok().json(view::job(&job, waiting.as_ref())))
}
