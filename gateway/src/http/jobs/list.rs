//! `GET /v1/jobs`: newest first, page by page, filtered.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::JobId;
use fencepost_domain::job::JobStatus;
use fencepost_domain::service::ServiceName;
use fencepost_store::views::JobFilter;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::view::Job;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Parameter, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::Query;
use crate::http::state::AppState;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 100;
/// By how many keys of the metadata at once.
const MAX_WORDS: usize = 5;

/// A page of jobs.
#[derive(Debug, Serialize, JsonSchema)]
struct Jobs {
    /// Newest first.
    jobs: Vec<Job>,
    /// The `cursor` of the next page, if there may be one. A page may be short or empty and not be the
    /// last: at most 10,000 jobs are looked at for one.
    next_cursor: Option<JobId>,
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
    let services = ServiceName::ALL
        .into_iter()
        .filter(|service| !service.is_for_tests());
    let services: Vec<_> = services.map(ServiceName::as_str).collect();
    let service = json!({ "type": "string", "enum": services });
    let time = || json!({ "type": "string", "format": "date-time" });
    let metadata = json!({
        "type": "object", "additionalProperties": { "type": "string" }, "maxProperties": MAX_WORDS,
    });
    let about = "Only jobs whose metadata has this key with this text, number or flag, as in \
        `metadata[order]=42`; at most five keys.";
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
        .reads(Parameter::query(
            "service",
            service,
            "Only jobs of this service.",
        ))
        .reads(Parameter::query(
            "created_after",
            time(),
            "Only jobs that were posted later.",
        ))
        .reads(Parameter::query(
            "created_before",
            time(),
            "Only jobs that were posted earlier.",
        ))
        .reads(Parameter::query_object("metadata", metadata, about))
        .answers::<Jobs>(200, "A page of jobs.")
        .refuses(&[ProblemCode::InvalidRequest])
}

/// A page of jobs and, if there are more, the cursor of the next one.
async fn list(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
) -> Result<HttpResponse, Problem> {
    let filter = read_filter(request.query_string())?;
    let page = state.store.job_page(buyer.org, filter).await?;
    Ok(HttpResponse::Ok().json(Jobs {
        jobs: page.jobs.iter().map(|job| Job::of(job, None)).collect(),
        next_cursor: page.next,
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
    let service = query.take("service", ServiceName::parse, "the name of a service")?;
    let instant = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
    let expected = "a time such as 2026-11-30T12:00:00Z";
    let created_after = query.take("created_after", instant, expected)?;
    let created_before = query.take("created_before", instant, expected)?;
    let metadata = query.take_object("metadata", MAX_WORDS)?;
    query.finish()?;
    Ok(JobFilter {
        status: status.map(|status| status.as_str().to_owned()),
        service: service.map(|service| service.as_str().to_owned()),
        metadata,
        created_after,
        created_before,
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
            ("service=transcode", "service"),
            ("created_after=yesterday", "created_after"),
            ("metadata=42", "metadata"),
        ] {
            assert_eq!(
                read_filter(query).unwrap_err().field.as_deref(),
                Some(field)
            );
        }
    }
}
