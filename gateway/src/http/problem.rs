//! How the API says no: problem+json (RFC 9457) with a code, the field, and whether to retry.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use fencepost_actors::batch::BatchError;
use fencepost_domain::field::FieldError;
use fencepost_protocol::{Code, Disposition};
use fencepost_store::StoreError;
use fencepost_store::tx::submit_job::QuotaReached;
use schemars::JsonSchema;
use serde::Serialize;

pub use super::problem_codes::ProblemCode;
use super::request_id;

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
    /// What a device is told to do about it, if it asked about a lease.
    pub disposition: Option<Disposition>,
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
            disposition: None,
        }
    }

    /// What a session would be told of a lease. All such refusals are conflicts, but for our own
    /// trouble.
    pub fn of_lease(code: Code, detail: Option<String>, retry_after_ms: Option<u64>) -> Self {
        let known = ProblemCode::of_wire(code);
        Self {
            code: known,
            detail: detail.unwrap_or_else(|| known.title().to_owned()),
            field: None,
            retry_after: retry_after_ms.map(Duration::from_millis),
            disposition: Some(code.disposition()),
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

    /// A quota leaves no room: which, and how much of it is used.
    pub fn quota(reached: &QuotaReached) -> Self {
        let QuotaReached { quota, used, most } = reached;
        let remedy = match *quota {
            "open_jobs" => "wait until a job has ended, or cancel one",
            _ => "delete uploads or outputs that you do not need",
        };
        Self::new(
            ProblemCode::QuotaExceeded,
            format!("{quota}: {used} of at most {most} are used; {remedy}"),
        )
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

/// The body of a refusal (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct Body<'a> {
    /// Address of the page that explains the code.
    #[schemars(extend("format" = "uri-reference"))]
    r#type: String,
    /// What the code means in general.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// What kind of refusal it is, for programs.
    code: ProblemCode,
    /// What is wrong here, and what to do about it.
    detail: &'a str,
    /// Path of the offending field, such as `params.height`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// Of leases only: whether to drop the work, to ask again or to mend the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    disposition: Option<Disposition>,
    /// Of leases only: when to ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The name of the request, for the operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl Problem {
    fn body(&self) -> Body<'_> {
        let asked = request_id::current();
        let base = asked.as_ref().map_or("", |asked| &asked.base);
        let retryable = match self.disposition {
            None => self.code.is_retryable(),
            Some(disposition) => disposition == Disposition::Retry,
        };
        let after = self.retry_after.filter(|_| self.disposition.is_some());
        Body {
            r#type: format!("{base}{}", self.code.page()),
            title: self.code.title(),
            status: self.status_code().as_u16(),
            code: self.code,
            detail: &self.detail,
            field: self.field.as_deref(),
            retryable,
            disposition: self.disposition,
            retry_after_ms: after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            request_id: asked.map(|asked| asked.id.to_string()),
        }
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        match (self.disposition, self.code) {
            (None, code) => code.status(),
            (Some(_), ProblemCode::Busy) => StatusCode::SERVICE_UNAVAILABLE,
            (Some(_), _) => StatusCode::CONFLICT,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if self.code == ProblemCode::Unauthorized {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        if let Some(after) = self.retry_after {
            let seconds = after.as_millis().div_ceil(1_000).max(1);
            response.insert_header((RETRY_AFTER, seconds.to_string()));
        }
        let json = serde_json::to_vec(&self.body()).unwrap_or_default();
        response
            .insert_header((CONTENT_TYPE, "application/problem+json"))
            .body(json)
    }
}

#[cfg(test)]
#[path = "problem_tests.rs"]
mod tests;
