//! The three ways in which a worker ends its lease: `commit`, `fail`, `release`.

use actix_web::HttpResponse;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::RequestId;
use fencepost_protocol::{AgentFrame, OutputDeclaration};

use super::about_lease;
use super::answer::{Committed, Done, answer};
use super::reading::{Asked, SECRET, check_sha256};
use super::schema::{NewCommit, NewFailure, NewRelease};
use crate::http::openapi::Operation;
use crate::http::problem::{Problem, ProblemCode};

/// `POST /v1/provider/leases/{attempt}/commit`.
pub(super) fn commit_operation() -> Operation {
    about_lease::<_, _, _, Committed>(
        "/v1/provider/leases/{attempt}/commit",
        "commit_output",
        commit,
        &NewCommit::example(),
        &[ProblemCode::CommitConflict, ProblemCode::BuyerCancelled, ProblemCode::VerificationFailed, ProblemCode::UploadFailed, ProblemCode::ProviderOffline, ProblemCode::Internal, ProblemCode::Verifying, ProblemCode::RequestConflict],
    )
    .says("Commit the output", "200 once the output has been verified; 409 `verifying` while it is (send the same again); 409 with disposition `stop` when the job does not get it.")
}

/// `{request_id, job_id, lease_epoch, commit_token, output: {sha256, size_bytes, object_key}}` → 200
/// `{status: succeeded, replayed}` once the output has been verified; 409 `verifying` with disposition
/// `retry` while it is; 409 with disposition `stop` when the job does not get it.
async fn commit(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let id = asked.request_id()?;
    let commit_token = asked.secret()?;
    let output = output(&mut asked)?;
    let frame = AgentFrame::Commit {
        lease: asked.lease,
        commit_token,
        output,
    };
    asked.ask(id, frame).await
}

fn output(asked: &mut Asked) -> Result<OutputDeclaration, FieldError> {
    let expected = "is missing; it must be {sha256, size_bytes, object_key}";
    let output = asked.fields.object("output")?;
    let mut output = output.ok_or_else(|| asked.fields.complaint("output", expected))?;
    let sha256: String = output.required("sha256", "a SHA-256")?;
    check_sha256(&output, "sha256", &sha256)?;
    let size = output.integer("size_bytes", 0..=i64::MAX)?;
    let size = size.ok_or_else(|| output.complaint("size_bytes", "is missing"))?;
    let object_key = output.required("object_key", "the key that was granted")?;
    output.finish()?;
    Ok(OutputDeclaration {
        sha256,
        size_bytes: size.unsigned_abs(),
        object_key,
    })
}

/// `POST /v1/provider/leases/{attempt}/fail`.
pub(super) fn fail_operation() -> Operation {
    about_lease::<_, _, _, Done>(
        "/v1/provider/leases/{attempt}/fail",
        "fail_attempt",
        fail,
        &NewFailure::example(),
        &[ProblemCode::CommitConflict, ProblemCode::RequestConflict],
    )
    .says(
        "Say that the work cannot be done",
        "Whether it is tried again is decided here, not by the device.",
    )
}

/// `{request_id, job_id, lease_epoch, commit_token, failure_code, message?}` → 200 `{replayed}`.
async fn fail(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let id = asked.request_id()?;
    let commit_token = asked.secret()?;
    let failure_code = asked.fields.required("failure_code", "a failure code")?;
    let message = asked.text("message")?;
    let frame = AgentFrame::Fail {
        lease: asked.lease,
        commit_token,
        failure_code,
        message,
    };
    asked.ask(id, frame).await
}

/// `POST /v1/provider/leases/{attempt}/release`.
pub(super) fn release_operation() -> Operation {
    about_lease::<_, _, _, Done>(
        "/v1/provider/leases/{attempt}/release",
        "release_lease",
        release,
        &NewRelease::example(),
        &[ProblemCode::CommitConflict, ProblemCode::RequestConflict],
    )
    .says("Give a lease back", "The job waits again, uncharged. With `claim_request_id` in the place of the secret for a claim whose answer never arrived, as long as nothing has been said under its epoch.")
}

/// `{request_id, job_id, lease_epoch, commit_token, reason?}` → 200 `{replayed}`. With
/// `claim_request_id` in the place of the secret for a claim whose answer never arrived, as long as
/// nothing has been said under its epoch.
async fn release(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let id = asked.request_id()?;
    let commit_token = asked.fields.optional("commit_token", SECRET)?;
    let claim_request: Option<RequestId> = asked
        .fields
        .optional("claim_request_id", "the claim's request_id")?;
    let reason = asked.text("reason")?;
    let Asked {
        device,
        lease,
        fields,
        state,
    } = asked;
    let neither = fields.complaint(
        "commit_token",
        "is missing; give it, or claim_request_id if the claim's answer never arrived",
    );
    let both = fields.complaint(
        "claim_request_id",
        "stands for the secret: give one of the two",
    );
    fields.finish()?;
    let outside = state.actors.outside();
    answer(match (commit_token, claim_request) {
        (Some(commit_token), None) => {
            let frame = AgentFrame::Release {
                lease,
                commit_token,
                reason,
            };
            outside.ask(device, id, frame).await
        }
        (None, Some(claim_request)) => {
            let given = (claim_request, reason);
            outside.give_back(device, id, lease, given).await
        }
        (None, None) => return Err(neither.into()),
        (Some(_), Some(_)) => return Err(both.into()),
    })
}
