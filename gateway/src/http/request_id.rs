//! A name for every request, in its answer and in every log line about it.

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
    let span = tracing::info_span!("request", id = %id, method = %request.method(), path);
    let answer = async {
        let result = next.call(request).await;
        match &result {
            Ok(response) => tracing::debug!(status = response.status().as_u16(), "answered"),
            Err(error) => tracing::debug!(%error, "failed"),
        }
        result
    };
    let mut response = CURRENT.scope(id, answer.instrument(span)).await?;
    let value = HeaderValue::from_str(&id.to_string()).expect("a UUID is plain text");
    response.headers_mut().insert(HEADER, value);
    Ok(response)
}
