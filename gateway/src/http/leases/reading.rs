//! What every request about a lease says, and how its fields are read.

use actix_web::{HttpRequest, web};
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::{AttemptId, RequestId};
use fencepost_protocol::LeaseRef;

use crate::http::body::{Fields, read_agent_json};
use crate::http::problem::{Problem, ProblemCode};

/// A body about a lease, of which the lease has been read.
pub(super) struct Asked {
    /// The lease.
    pub(super) lease: LeaseRef,
    /// What is left to read.
    pub(super) fields: Fields,
}

impl Asked {
    /// Reads the lease: the attempt in the address, the rest in the body.
    pub(super) async fn read(
        request: &HttpRequest,
        attempt: &str,
        payload: web::Payload,
    ) -> Result<Self, Problem> {
        let attempt_id: AttemptId = attempt.parse().map_err(|_| {
            Problem::new(ProblemCode::InvalidRequest, "the address must hold a UUID").at("attempt")
        })?;
        let mut fields = Fields::of_body(read_agent_json(request, payload).await?)?;
        let job_id = fields.required("job_id", "a UUID")?;
        let epoch = fields.integer("lease_epoch", 1..=i64::MAX)?;
        let lease_epoch = epoch
            .ok_or_else(|| fields.complaint("lease_epoch", "is missing; it must be a number"))?;
        let lease = LeaseRef {
            job_id,
            attempt_id,
            lease_epoch,
        };
        Ok(Self { lease, fields })
    }

    /// What the device calls the request.
    pub(super) fn request_id(&mut self) -> Result<RequestId, FieldError> {
        request_id(&mut self.fields)
    }

    /// The lease's secret; whatever else stands there is not repeated.
    pub(super) fn secret(&mut self) -> Result<CommitToken, FieldError> {
        self.fields.required("commit_token", SECRET)
    }

    /// A text of at most so many bytes; absent is empty.
    pub(super) fn text(&mut self, name: &'static str) -> Result<String, FieldError> {
        let text: Option<String> = self.fields.optional(name, "a text")?;
        Ok(text.unwrap_or_default())
    }
}

/// What a secret looks like.
pub(super) const SECRET: &str = "the lease's secret, 24 bytes in base64url";

/// What the device calls a request.
pub(super) fn request_id(fields: &mut Fields) -> Result<RequestId, FieldError> {
    fields.required("request_id", "a UUID, a new one for each request")
}

/// Refuses what is no SHA-256.
pub(super) fn check_sha256(fields: &Fields, name: &str, sha256: &str) -> Result<(), FieldError> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if sha256.len() == 64 && sha256.bytes().all(is_hex) {
        Ok(())
    } else {
        Err(fields.complaint(name, "must be 64 hexadecimal digits in lower case"))
    }
}
