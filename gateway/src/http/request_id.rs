//! A name for every request, in its answer and in every log line about it.

use std::time::Instant;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::Next;
use tracing::Instrument as _;
use uuid::Uuid;

/// The header that carries it.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    static CURRENT: Uuid;
}

/// The id of the request that is being answered.
pub fn current() -> Option<String> {
    CURRENT.try_with(Uuid::to_string).ok()
}

/// Gives the request its id. What a caller sends as an id is not taken over: it would let one
/// caller write into the log lines of another.
pub async fn assign<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, actix_web::Error> {
    let id = Uuid::now_v7();
    // The path of a link is a secret until it expires.
    let path = match request.path() {
        path if path.starts_with("/v1/blobs/") => "/v1/blobs/(link)".to_owned(),
        path => path.to_owned(),
    };
    let method = request.method().to_string();
    let started = Instant::now();
    let span = tracing::info_span!("request", id = %id, method, path);
    let answer = async {
        let result = next.call(request).await;
        match &result {
            Ok(response) => tracing::debug!(status = response.status().as_u16(), "answered"),
            Err(error) => tracing::debug!(%error, "failed"),
        }
        result
    };
    let mut response = CURRENT.scope(id, answer.instrument(span)).await?;
    count(&method, &response, started);
    let value = HeaderValue::from_str(&id.to_string()).expect("a UUID is plain text");
    response.headers_mut().insert(HEADER, value);
    Ok(response)
}

/// Counts by the route's pattern, of which there are few, and never by the path.
fn count<B>(method: &str, response: &ServiceResponse<B>, started: Instant) {
    let route = response
        .request()
        .match_pattern()
        .unwrap_or_else(|| "none".to_owned());
    let status = response.status().as_u16().to_string();
    metrics::histogram!("fencepost_http_seconds", "route" => route.clone())
        .record(started.elapsed().as_secs_f64());
    metrics::counter!(
        "fencepost_http_requests_total",
        "method" => method.to_owned(), "route" => route, "status" => status
    )
    .increment(1);
}
