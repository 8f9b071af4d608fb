//! `GET /v1/jobs/{job}/output`: the winning attempt's verified copy, never anything else.

use actix_web::http::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use actix_web::{HttpResponse, web};
use fencepost_domain::job::JobStatus;
use fencepost_store::views::OutputView;

use super::job_id;
use super::view::output_name;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// `GET /v1/jobs/{job}/output`.
pub(in crate::http) fn operation() -> Operation {
    Operation::get("/v1/jobs/{job}/output", "get_job_output", output)
        .says(
            "The output of a job",
            "The verified output of the winning attempt, and never anything else.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .answers_nothing(302, "A link that expires.")
        .with_header("Location")
        .refuses(&[
            ProblemCode::NotFound,
            ProblemCode::NotReady,
            ProblemCode::NoOutput,
            ProblemCode::Gone,
        ])
}

/// 302 to a link that expires, or 409 while (or because) there is no output.
async fn output(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let job = job_id(&path)?;
    match state.store.output(buyer.org, job).await? {
        OutputView::NoJob => Err(Problem::not_found("job")),
        OutputView::NotReady { status } => Err(no_output(&status)),
        OutputView::Gone => Err(Problem::new(
            ProblemCode::Gone,
            "the output was deleted: by you, or because its time was over (`expires_at`)",
        )),
        OutputView::Ready {
            object_key,
            link_expires_at,
            service,
            params,
            ..
        } => {
            let name = output_name(job, &service, &params);
            let link = state.output_link(object_key, name, link_expires_at);
            Ok(HttpResponse::Found()
                .insert_header((LOCATION, link))
                .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
                .finish())
        }
    }
}

fn no_output(status: &str) -> Problem {
    if JobStatus::parse(status).is_some_and(JobStatus::is_terminal) {
        let verb = if status == "cancelled" { "was" } else { "has" };
        let detail = format!("the job {verb} {status}: there will be no output");
        return Problem::new(ProblemCode::NoOutput, detail);
    }
    let detail = format!("the job is {status}: ask again when it has succeeded");
    Problem::new(ProblemCode::NotReady, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_job_is_worth_asking_again_and_an_ended_one_is_not() {
        for (status, code) in [
            ("queued", ProblemCode::NotReady),
            ("active", ProblemCode::NotReady),
            ("verifying", ProblemCode::NotReady),
            ("failed", ProblemCode::NoOutput),
            ("cancelled", ProblemCode::NoOutput),
        ] {
            assert_eq!(no_output(status).code, code);
            assert_eq!(no_output(status).code.status(), 409);
        }
        for (status, words) in [("failed", "has failed"), ("cancelled", "was cancelled")] {
            assert!(no_output(status).detail.contains(words), "{status}");
        }
    }
}
