//! `DELETE /v1/jobs/{job}/output`: its output and artifacts are given up; the job, its attempts and its
//! money stay.

use actix_web::{HttpResponse, web};
use fencepost_store::tx::delete_files::FilesDeleted;

use super::job_id;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// `DELETE /v1/jobs/{job}/output`.
pub(in crate::http) fn operation() -> Operation {
    let path = "/v1/jobs/{job}/output";
    Operation::delete(path, "delete_job_output", delete)
        .says(
            "Delete what a job made",
            "No link to its output and artifacts is given out any more; one that was works until the bytes \
             are deleted, soon after. The job, its attempts and its money stay. May be repeated.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .answers_nothing(204, "There is no output of it any more.")
        .refuses(&[ProblemCode::NotFound, ProblemCode::JobIsLive])
}

async fn delete(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    answer(state.store.delete_files(buyer.org, job_id(&path)?).await?)
}

/// What became of the wish.
pub(super) fn answer(deleted: FilesDeleted) -> Result<HttpResponse, Problem> {
    match deleted {
        FilesDeleted::Done => Ok(HttpResponse::NoContent().finish()),
        FilesDeleted::NoJob => Err(Problem::not_found("job")),
        FilesDeleted::Live(status) => Err(Problem::new(
            ProblemCode::JobIsLive,
            format!("the job is {}: cancel it first", status.as_str()),
        )),
    }
}
