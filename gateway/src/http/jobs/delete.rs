//! `DELETE /v1/jobs/{job}`: the job, as far as money lets it go.

use actix_web::{HttpResponse, web};

use super::delete_output::answer;
use super::job_id;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// `DELETE /v1/jobs/{job}`.
pub(in crate::http) fn operation() -> Operation {
    Operation::delete("/v1/jobs/{job}", "delete_job", delete)
        .says(
            "Delete a job that has ended",
            "No link to its output and artifacts is given out any more (one that was works until the bytes \
             are deleted, soon after), and what you said in it is erased: parameters, inputs, metadata, what its Macs wrote. What it cost stays in the journal. From \
             then on there is no such job, but its idempotency key makes no new one until the key's \
             time is over. Files that you sent are yours to delete. May be repeated.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .answers_nothing(204, "There is no such job any more.")
        .refuses(&[ProblemCode::NotFound, ProblemCode::JobIsLive])
}

async fn delete(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    answer(state.store.delete_job(buyer.org, job_id(&path)?).await?)
}
