//! The three ways in which a worker ends its lease: `commit`, `fail`, `release`.

use actix_web::HttpResponse;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::RequestId;
use fencepost_protocol::{AgentFrame, OutputDeclaration};

use super::answer::answer;
use super::reading::{Asked, SECRET, check_sha256};
use crate::http::problem::Problem;

/// `{request_id, job_id, lease_epoch, commit_token, output: {sha256, size_bytes, object_key}}` → 200
/// `{status: succeeded, replayed}` once the output has been verified; 409 `verifying` with disposition
/// `retry` while it is; 409 with disposition `stop` when the job does not get it.
pub(super) async fn commit(mut asked: Asked) -> Result<HttpResponse, Problem> {
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

/// `{request_id, job_id, lease_epoch, commit_token, failure_code, message?}` → 200 `{replayed}`.
pub(super) async fn fail(mut asked: Asked) -> Result<HttpResponse, Problem> {
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

/// `{request_id, job_id, lease_epoch, commit_token, reason?}` → 200 `{replayed}`. With
/// `claim_request_id` in the place of the secret for a claim whose answer never arrived, as long as
/// nothing has been said under its epoch.
pub(super) async fn release(mut asked: Asked) -> Result<HttpResponse, Problem> {
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
    Ok(answer(match (commit_token, claim_request) {
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
    }))
}
