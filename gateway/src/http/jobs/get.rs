//! `GET /v1/jobs/{job}`.

use actix_web::{HttpResponse, web};

use super::job_id;
use super::view::Job;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// `GET /v1/jobs/{job}`.
pub(in crate::http) fn operation() -> Operation {
    Operation::get("/v1/jobs/{job}", "get_job", get)
        .says("One job", "How far it is, or why it waits.")
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .answers::<Job>(200, "The job.")
        .refuses(&[ProblemCode::NotFound])
}

async fn get(
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
    Ok(HttpResponse::Ok().json(Job::of(&job, waiting.as_ref())))
}
