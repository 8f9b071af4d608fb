//! `GET /v1/jobs/{job}/events`: what becomes of a job, as it happens, or a page of it.

use std::time::Duration;

use actix_web::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_actors::announcer::{Listen, ListenRefusal};
use fencepost_domain::ids::JobId;
use fencepost_store::views::NewsAfter;
use serde_json::json;

use super::told::EventPage;
use super::{job_id, sse};
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Parameter, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::Query;
use crate::http::state::AppState;
use crate::ws::Cutter;

/// The header with which a client that was cut off says where it was.
const LAST_EVENT_ID: &str = "Last-Event-ID";
const AFTER: &str = "after";
/// When to come again where too much is watched already.
const LATER: Duration = Duration::from_secs(5);
/// When to come again where the gateway stops: another one answers then.
const SOON: Duration = Duration::from_secs(1);

/// `GET /v1/jobs/{job}/events`.
pub(in crate::http) fn operation() -> Operation {
    let number = || json!({ "type": "integer", "minimum": 0 });
    Operation::get("/v1/jobs/{job}/events", "watch_job", events)
        .says(
            "What becomes of a job",
            "A stream of server-sent events: what has happened since the last one that you know, what \
             happens from now on, and how the job is whenever that changes (`status`, without an id). \
             It ends after the job has, or early; then ask again with the last id. With \
             `Accept: application/json` it is one page instead.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .reads(Parameter::header(
            LAST_EVENT_ID,
            number(),
            "The id of the last event that you know.",
        ))
        .reads(Parameter::query(
            AFTER,
            number(),
            "The same, for who cannot set headers; the header counts if there are both.",
        ))
        .answers::<EventPage>(200, "What has happened and happens, or a page of it.")
        .or_as("text/event-stream")
        .answers_nothing(204, "You know the end already: nothing will come.")
        .refuses(&[ProblemCode::InvalidRequest, ProblemCode::NotFound])
}

/// A stream of server-sent events that ends after the job's end, 204 for who knows that already; or,
/// for `Accept: application/json`, one page of the events.
async fn events(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let job = job_id(&path)?;
    let (after, named) = after(&request)?;
    let news = state.store.job_news(vec![NewsAfter { job, after }]).await?;
    let news = news
        .into_iter()
        .flatten()
        .find(|news| news.org == buyer.org);
    let mut news = news.ok_or_else(|| Problem::not_found("job"))?;
    if after > news.last_seq {
        let problem = format!("the last event of the job is {}", news.last_seq);
        return Err(Problem::new(ProblemCode::InvalidRequest, problem).at(named));
    }
    if wants_json(&request) {
        if let Some(lane) = news.ready_lane.clone() {
            let asked = (buyer.org, lane);
            news.state.waits = state.actors.shared().waiting.call(asked).await?;
        }
        return Ok(HttpResponse::Ok().json(EventPage::of(&news)));
    }
    if news.ended_at.is_some() && after == news.last_seq {
        // The one answer after which an EventSource does not come again.
        return Ok(HttpResponse::NoContent().finish());
    }
    stream(&request, &buyer, &state, (job, after)).await
}

async fn stream(
    request: &HttpRequest,
    buyer: &Buyer,
    state: &AppState,
    (job, after): (JobId, i64),
) -> Result<HttpResponse, Problem> {
    let cutter = Cutter::of(request);
    let listen = Listen {
        org: buyer.org,
        job,
        after,
        cut: Box::new(move || cutter.cut()),
    };
    let told = state.actors.listen(listen).await.map_err(refusal)?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
        // Proxies of the nginx kind pass it on piece by piece then.
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(sse::stream(told)))
}

fn refusal(refusal: ListenRefusal) -> Problem {
    match refusal {
        ListenRefusal::Org(_) => {
            let detail = format!("{refusal}: end one of the streams, or ask for single jobs");
            Problem::new(ProblemCode::TooManyRequests, detail).after(LATER)
        }
        ListenRefusal::Full => {
            Problem::new(ProblemCode::Unavailable, refusal.to_string()).after(LATER)
        }
        ListenRefusal::Closed => {
            Problem::new(ProblemCode::Unavailable, refusal.to_string()).after(SOON)
        }
    }
}

/// What is known already, and what says so: the header, which an `EventSource` sends when it comes
/// again, or else the query.
fn after(request: &HttpRequest) -> Result<(i64, &'static str), Problem> {
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| is_plain)
    };
    let expected = "the id of an event of this job";
    let mut query = Query::parse(request.query_string())?;
    let from_query = query.take(AFTER, number, expected)?;
    query.finish()?;
    let Some(header) = request.headers().get(LAST_EVENT_ID) else {
        return Ok((from_query.unwrap_or(0), AFTER));
    };
    let from_header = header.to_str().ok().and_then(number);
    let problem = || {
        Problem::new(ProblemCode::InvalidRequest, format!("must be {expected}")).at(LAST_EVENT_ID)
    };
    let known = from_header.ok_or_else(problem)?;
    Ok((known, LAST_EVENT_ID))
}

/// Whether JSON is asked for and a stream is not.
fn wants_json(request: &HttpRequest) -> bool {
    let accepts = |what: &str| {
        let headers = request.headers().get_all(ACCEPT);
        let mut ranges = headers
            .filter_map(|header| header.to_str().ok())
            .flat_map(|header| header.split(','));
        ranges.any(|range| {
            let essence = range.split(';').next().unwrap_or("").trim();
            essence.eq_ignore_ascii_case(what)
        })
    };
    accepts("application/json") && !accepts("text/event-stream")
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn what_is_known_comes_from_the_header_or_else_from_the_query() {
        let request = |uri: &str, header: Option<&str>| {
            let request = TestRequest::get().uri(uri);
            let request = match header {
                Some(id) => request.insert_header((LAST_EVENT_ID, id)),
                None => request,
            };
            after(&request.to_http_request())
        };
        assert_eq!(request("/", None).unwrap(), (0, AFTER));
        assert_eq!(request("/?after=7", None).unwrap(), (7, AFTER));
        assert_eq!(request("/?after=7", Some("9")).unwrap(), (9, LAST_EVENT_ID));
        for junk in ["", "x", "-1", "+1", " 1", "1.0", "9223372036854775808"] {
            let problem = request("/", Some(junk)).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(LAST_EVENT_ID), "{junk}");
        }
        for junk in ["after=x", "after=-1", "after=1&after=2", "before=1"] {
            assert!(request(&format!("/?{junk}"), Some("1")).is_err(), "{junk}");
        }
    }

    #[test]
    fn only_who_wants_nothing_but_json_gets_a_page() {
        for (accept, is_json) in [
            ("application/json", true),
            ("application/json;q=0.9, */*", true),
            ("text/event-stream", false),
            ("text/event-stream, application/json", false),
            ("*/*", false),
        ] {
            let request = TestRequest::get().insert_header((ACCEPT, accept));
            assert_eq!(wants_json(&request.to_http_request()), is_json, "{accept}");
        }
    }
}
