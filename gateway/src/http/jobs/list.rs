//! `GET /v1/jobs?limit&cursor&status`: newest first, page by page.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::job::JobStatus;
use fencepost_store::views::JobFilter;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::view::Job;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Parameter, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::Query;
use crate::http::state::AppState;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 100;

/// A page of jobs.
#[derive(Debug, Serialize, JsonSchema)]
struct Jobs {
    /// Newest first.
    jobs: Vec<Job>,
    /// The `cursor` of the next page, if there is one.
    next_cursor: Option<Uuid>,
}

/// `GET /v1/jobs`.
pub(in crate::http) fn operation() -> Operation {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
    });
    let cursor = json!({ "type": "string", "format": "uuid" });
    let status = json!({
        "type": "string", "enum": JobStatus::ALL.map(JobStatus::as_str),
    });
    Operation::get("/v1/jobs", "list_jobs", list)
        .says(
            "Your jobs, newest first",
            "Page by page: the next one is at `cursor=next_cursor`.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .reads(Parameter::query("limit", limit, "How many."))
        .reads(Parameter::query(
            "cursor",
            cursor,
            "The `next_cursor` of an earlier answer.",
        ))
        .reads(Parameter::query(
            "status",
            status,
            "Only jobs that stand so.",
        ))
        .answers::<Jobs>(200, "A page of jobs.")
        .refuses(&[ProblemCode::InvalidRequest])
}

/// A page of jobs and, if there are more, the cursor of the next one.
async fn list(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
) -> Result<HttpResponse, Problem> {
    let mut filter = read_filter(request.query_string())?;
    let limit = filter.limit;
    // One more than asked for tells whether there is another page.
    filter.limit += 1;
    let mut jobs = state.store.jobs(buyer.org, filter).await?;
    let has_more = jobs.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if has_more {
        jobs.pop();
    }
    let next_cursor = jobs.last().filter(|_| has_more).map(|job| job.id);
    Ok(HttpResponse::Ok().json(Jobs {
        jobs: jobs.iter().map(|job| Job::of(job, None)).collect(),
        next_cursor,
    }))
}

fn read_filter(query: &str) -> Result<JobFilter, Problem> {
    let mut query = Query::parse(query)?;
    let limit = |text: &str| text.parse().ok().filter(|n| (1..=MAX_LIMIT).contains(n));
    let limit = query.take("limit", limit, "a whole number between 1 and 100")?;
    let before = |text: &str| text.parse().ok();
    let before = query.take("cursor", before, "the next_cursor of an earlier answer")?;
    let known: Vec<_> = JobStatus::ALL
        .iter()
        .map(|status| status.as_str())
        .collect();
    let expected = format!("one of {}", known.join(", "));
    let status = query.take("status", JobStatus::parse, &expected)?;
    query.finish()?;
    Ok(JobFilter {
        status: status.map(|status| status.as_str().to_owned()),
        before,
        limit: limit.unwrap_or(DEFAULT_LIMIT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_query_asks_for_the_newest_fifty() {
        let filter = read_filter("").unwrap();
        assert_eq!(
            (filter.limit, filter.before, filter.status),
            (50, None, None)
        );
    }

    #[test]
    fn wrong_filters_are_refused_by_name() {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
            ("cursor=x", "cursor"),
            ("status=done", "status"),
            ("state=queued", "state"),
        ] {
            assert_eq!(
                read_filter(query).unwrap_err().field.as_deref(),
                Some(field)
            );
        }
    }
}
