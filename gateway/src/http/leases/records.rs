//! What an attempt leaves besides its output: `events`, `artifacts`, and after its end, by `retain`, its
//! workspace. A repeat is known by what it says, so it needs no `request_id`.

use actix_web::HttpResponse;
use fencepost_domain::retention::DEFAULT_RETENTION;
use fencepost_protocol::AgentFrame;

use super::about_lease;
use super::answer::{Done, Written};
use super::reading::{Asked, check_sha256};
use super::schema::{NewArtifact, NewEvent, NewRetention};
use crate::http::openapi::Operation;
use crate::http::problem::{Problem, ProblemCode};

/// `POST /v1/provider/leases/{attempt}/events`.
pub(super) fn event_operation() -> Operation {
    about_lease::<_, _, _, Written>(
        "/v1/provider/leases/{attempt}/events",
        "write_event",
        event,
        &NewEvent::example(),
        &[ProblemCode::RunLeaseConflict, ProblemCode::RunEventConflict],
    )
    .says(
        "Write into the journal",
        "Known by what it says, so it may be repeated: then 200 and the stored row.",
    )
    .answers::<Written>(201, "Written.")
}

/// `{job_id, lease_epoch, commit_token, event_id, seq, kind, payload?}` → 201 `{replayed, lease_live}`,
/// or 200 if it was stored already.
async fn event(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let commit_token = asked.secret()?;
    let event_id = asked.fields.required("event_id", "a UUID")?;
    let seq = asked.fields.integer("seq", 0..=i64::MAX)?;
    let seq = seq.ok_or_else(|| {
        asked
            .fields
            .complaint("seq", "is missing; it must be a number")
    })?;
    let kind = asked.fields.required("kind", "an identifier")?;
    let what = asked.fields.value("payload").unwrap_or_default();
    let frame = AgentFrame::Event {
        lease: asked.lease,
        commit_token,
        event_id,
        seq,
        kind,
        payload: what,
    };
    asked.record(frame).await
}

/// `POST /v1/provider/leases/{attempt}/artifacts`.
pub(super) fn artifact_operation() -> Operation {
    about_lease::<_, _, _, Written>(
        "/v1/provider/leases/{attempt}/artifacts",
        "write_artifact",
        artifact,
        &NewArtifact::example(),
        &[ProblemCode::RunLeaseConflict, ProblemCode::RunArtifactConflict],
    )
    .says("Name a file besides the output", "The object is one that was granted under this name. May be repeated: then 200 and the stored row.")
    .answers::<Written>(201, "Written.")
}

/// `{job_id, lease_epoch, commit_token, name, sha256, size_bytes, object_key}` →
/// 201 `{replayed, lease_live}`, or 200 if it was stored already. The object is one that was granted under this name.
async fn artifact(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let commit_token = asked.secret()?;
    let name = asked.fields.required("name", "an identifier")?;
    let sha256: String = asked.fields.required("sha256", "a SHA-256")?;
    check_sha256(&asked.fields, "sha256", &sha256)?;
    let size = asked.fields.integer("size_bytes", 0..=i64::MAX)?;
    let size = size.ok_or_else(|| asked.fields.complaint("size_bytes", "is missing"))?;
    let object_key = asked
        .fields
        .required("object_key", "the key that was granted")?;
    let frame = AgentFrame::Artifact {
        lease: asked.lease,
        commit_token,
        name,
        sha256,
        size_bytes: size.unsigned_abs(),
        object_key,
    };
    asked.record(frame).await
}

/// `POST /v1/provider/leases/{attempt}/retain`.
pub(super) fn retain_operation() -> Operation {
    about_lease::<_, _, _, Done>(
        "/v1/provider/leases/{attempt}/retain",
        "retain_workspace",
        retain,
        &NewRetention::example(),
        &[ProblemCode::CommitConflict],
    )
    .says("Hand over a workspace", "What an ended attempt left on the device, and for how long the device keeps it. May be repeated.")
}

/// `{job_id, lease_epoch, commit_token, handle, retain_for?}` → 200 `{replayed}`: the workspace that an
/// ended attempt left on the device, and for how long the device keeps it.
async fn retain(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let commit_token = asked.secret()?;
    let handle = asked
        .fields
        .required("handle", "a name that begins with the attempt's id")?;
    let retain_for = asked
        .fields
        .optional("retain_for", "a time from 1us to 24h, such as 15m")?
        .unwrap_or(DEFAULT_RETENTION);
    let frame = AgentFrame::Retain {
        lease: asked.lease,
        commit_token,
        handle,
        retain_for,
    };
    asked.record(frame).await
}
