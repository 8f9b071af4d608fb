//! `GET /v1/jobs?limit&cursor&status`: newest first, page by page.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::job::JobStatus;
use fencepost_store::views::JobFilter;
use serde_json::{Value, json};

use super::view;
use crate::http::auth::Buyer;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::state::AppState;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 100;

/// A page of jobs and, if there are more, the cursor of the next one.
pub async fn list(
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
    let jobs: Vec<Value> = jobs.iter().map(|job| view::job(job, None)).collect();
    Ok(HttpResponse::Ok().json(json!({ "jobs": jobs, "next_cursor": next_cursor })))
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
