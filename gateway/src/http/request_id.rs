//! A name for every request, in its answer and in every log line about it.

use std::time::Instant;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::web;
use tracing::Instrument as _;
use uuid::Uuid;

use super::limit;
use super::state::AppState;

/// No name in an address of ours is longer, and every secret is.
const LONGEST_NAME: usize = 24;

/// The header that carries it.
pub const NAME: &str = "x-request-id";

/// What an answer may say of the request that it answers.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its name.
    pub id: Uuid,
    /// What our own addresses begin with, as far as we know it: `https://fencepost.example`.
    pub base: String,
}

tokio::task_local! {
    static CURRENT: Asked;
}

/// The request that is being answered.
pub fn current() -> Option<Asked> {
    CURRENT.try_with(Asked::clone).ok()
}

/// Gives the request its id. What a caller sends as an id is not taken over: it would let one
/// caller write into the log lines of another.
pub async fn assign<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, actix_web::Error> {
    let id = Uuid::now_v7();
    let path = without_secrets(request.path());
    let state = request.app_data::<web::Data<AppState>>();
    let base = state.and_then(|state| state.config.http.public_url.clone());
    let base = base.unwrap_or_default();
    let asked = Asked { id, base };
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
    let mut response = CURRENT.scope(asked, answer.instrument(span)).await?;
    count(&method, &response, started);
    limit::tell(&mut response);
    let value = HeaderValue::from_str(&id.to_string()).expect("a UUID is plain text");
    response
        .headers_mut()
        .insert(HeaderName::from_static(NAME), value);
    Ok(response)
}

/// A path as it may be logged: the names of our addresses and ids. A link is a secret until it
/// expires, and callers put theirs into places where they do not belong.
fn without_secrets(path: &str) -> String {
    let is_plain = |part: &str| part.len() <= LONGEST_NAME || part.parse::<Uuid>().is_ok();
    let parts = path.split('/');
    let shown = parts.map(|part| if is_plain(part) { part } else { "(hidden)" });
    shown.collect::<Vec<_>>().join("/")
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
