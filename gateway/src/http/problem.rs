//! How the API says no: problem+json (RFC 9457) with a code, the field, and whether to retry.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use fencepost_actors::batch::BatchError;
use fencepost_domain::field::FieldError;
use fencepost_store::StoreError;
use serde::Serialize;

use super::request_id;

/// Every kind of refusal: its word, status, title, and whether the same request may succeed later.
macro_rules! problem_codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $status:ident, $title:literal, $retry:literal;)+) => {
        /// A machine-readable reason for a refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemCode { $($(#[$doc])* $name),+ }

        impl ProblemCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word in the answer.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// The HTTP status.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),+ }
            }

            /// What it means in general, for a person.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),+ }
            }

            /// Whether the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$name => $retry),+ }
            }
        }
    };
}

problem_codes! {
    /// A value breaks a rule, or the body is not JSON.
    InvalidRequest = "invalid_request", BAD_REQUEST, "The request is not valid", false;
    /// No credential, or one that opens nothing here.
    Unauthorized = "unauthorized", UNAUTHORIZED, "The credential is not valid", false;
    /// The balance does not cover the hold.
    InsufficientFunds = "insufficient_funds", PAYMENT_REQUIRED, "The balance is too low", false;
    /// The device is disabled.
    Disabled = "disabled", FORBIDDEN, "The device is disabled", false;
    /// The link is not one of ours.
    LinkInvalid = "link_invalid", FORBIDDEN, "The link is not valid", false;
    /// The link's time is over.
    LinkExpired = "link_expired", FORBIDDEN, "The link has expired", false;
    /// No such thing, or not yours.
    NotFound = "not_found", NOT_FOUND, "There is no such thing", false;
    /// The address exists, the method does not.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The method is not allowed here", false;
    /// The job has no output yet.
    NotReady = "not_ready", CONFLICT, "There is no output yet", true;
    /// The job ended without an output.
    NoOutput = "no_output", CONFLICT, "There is no output", false;
    /// The upload is stored already; it can be written once.
    AlreadyStored = "already_stored", CONFLICT, "The file is stored already", false;
    /// The upload has not arrived, so it cannot be an input.
    UploadIncomplete = "upload_incomplete", CONFLICT, "The file has not been sent", false;
    /// The attempt's grant is closed.
    GrantClosed = "grant_closed", CONFLICT, "The attempt can no longer write this", false;
    /// The idempotency key names another request.
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key was used for another request", false;
    /// Bytes other than announced came.
    LengthMismatch = "length_mismatch", BAD_REQUEST, "The length is not as announced", true;
    /// The sender broke off.
    BrokenOff = "broken_off", BAD_REQUEST, "The body ended early", true;
    /// More than is taken.
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, "The body is too large", false;
    /// The body is not JSON.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body must be JSON", false;
    /// The range lies outside of the object.
    RangeNotSatisfiable = "range_not_satisfiable", RANGE_NOT_SATISFIABLE, "The range is outside of the object", false;
    /// The agent is too old, or this is no WebSocket.
    UpgradeRequired = "upgrade_required", UPGRADE_REQUIRED, "A WebSocket is needed", false;
    /// Too many claims failed lately.
    TooManyRequests = "too_many_requests", TOO_MANY_REQUESTS, "Too many requests", true;
    /// A mistake of ours.
    Internal = "internal_error", INTERNAL_SERVER_ERROR, "Something went wrong on our side", true;
    /// The clock is behind its mark.
    ClockRegressed = "clock_regressed", SERVICE_UNAVAILABLE, "The clock has gone back", true;
    /// The database is away, overloaded, or we are shutting down.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Not available at the moment", true;
}

/// One refusal.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {detail}", code.as_str())]
pub struct Problem {
    /// What kind.
    pub code: ProblemCode,
    /// What is wrong here, and what to do about it.
    pub detail: String,
    /// Path of the offending field (`params.height`).
    pub field: Option<String>,
    /// When to ask again.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// A refusal with an explanation.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        let retry_after = match code {
            ProblemCode::Unavailable => Some(Duration::from_secs(2)),
            _ => None,
        };
        Self {
            code,
            detail: detail.into(),
            field: None,
            retry_after,
        }
    }

    /// The same refusal, with a time to come back.
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same refusal, pointing at a field.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The one answer for things that do not exist and things of others.
    pub fn not_found(what: &str) -> Self {
        Self::new(ProblemCode::NotFound, format!("you have no such {what}"))
    }

    /// A mistake of ours: logged here, once, and not explained to the caller.
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "a request failed");
        Self::new(
            ProblemCode::Internal,
            "the request could not be answered; it is safe to ask again, and the operators can \
             find it by its request_id",
        )
    }
}

impl From<FieldError> for Problem {
    fn from(error: FieldError) -> Self {
        let problem = Self::new(ProblemCode::InvalidRequest, error.problem);
        if error.field.is_empty() {
            return problem;
        }
        problem.at(error.field)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) => {
                tracing::warn!(%error, "a request met no database");
                Self::new(
                    ProblemCode::Unavailable,
                    "the database does not answer in time; ask again",
                )
            }
            StoreError::Busy => Self::new(
                ProblemCode::Unavailable,
                "no connection to the database was free in time; ask again in a moment",
            ),
            StoreError::Database(_)
            | StoreError::Inconsistency { .. }
            | StoreError::Schema { .. } => Self::internal(&error),
        }
    }
}

impl From<BatchError> for Problem {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Store(error) => error.into(),
            BatchError::Full | BatchError::Gone => {
                let detail = "too much is asked at the moment; ask again";
                Self::new(ProblemCode::Unavailable, detail)
            }
        }
    }
}

/// The body of a refusal.
#[derive(Debug, Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.code.status()
    }

    fn error_response(&self) -> HttpResponse {
        let body = Body {
            r#type: format!("urn:fencepost:problem:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            code: self.code.as_str(),
            detail: &self.detail,
            field: self.field.as_deref(),
            retryable: self.code.is_retryable(),
            request_id: request_id::current(),
        };
        let mut response = HttpResponse::build(self.code.status());
        if self.code == ProblemCode::Unauthorized {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        if let Some(after) = self.retry_after {
            response.insert_header((
                RETRY_AFTER,
                after.as_millis().div_ceil(1_000).max(1).to_string(),
            ));
        }
        let json = serde_json::to_vec(&body).unwrap_or_default();
        response
            .insert_header((CONTENT_TYPE, "application/problem+json"))
            .body(json)
    }
}

#[cfg(test)]
#[path = "problem_tests.rs"]
mod tests;
