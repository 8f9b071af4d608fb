//! What is said and asked while the work goes on: `progress`, `renew`, `grants`.

use actix_web::HttpResponse;
use fencepost_domain::duration::LeaseDuration;
use fencepost_protocol::AgentFrame;

use super::about_lease;
use super::answer::{GrantedLink, Renewed, answer};
use super::reading::Asked;
use super::schema::{NewGrant, NewProgress, NewRenewal};
use crate::http::openapi::Operation;
use crate::http::problem::{Problem, ProblemCode};

/// `POST /v1/provider/leases/{attempt}/progress`.
pub(super) fn progress_operation() -> Operation {
    about_lease::<_, _, _, Renewed>(
        "/v1/provider/leases/{attempt}/progress",
        "report_progress",
        progress,
        &NewProgress::example(),
        &[ProblemCode::LeaseConflict, ProblemCode::RequestConflict],
    )
    .says("Say how far the work is", "Renews the lease, and never shortens it. At `directive: stop` the job is being cancelled: stop, and end the lease.")
}

/// `{request_id, job_id, lease_epoch, phase, percent?, detail?}` → 200
/// `{lease_expires_at, lease_remaining_ms, directive, reason?, replayed}`. Renews the lease, and never
/// shortens it. At `directive: stop` the job is being cancelled: stop, and end the lease.
async fn progress(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let id = asked.request_id()?;
    let phases = "leased, downloading, running or uploading";
    let phase = asked.fields.required("phase", phases)?;
    let percent: Option<f32> = asked.fields.optional("percent", "a number from 0 to 100")?;
    if percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        let problem = "must be a number from 0 to 100";
        return Err(asked.fields.complaint("percent", problem).into());
    }
    let detail = asked.fields.optional("detail", "a text")?;
    let frame = AgentFrame::Progress {
        lease: asked.lease,
        phase,
        percent,
        detail,
    };
    asked.ask(id, frame).await
}

/// `POST /v1/provider/leases/{attempt}/renew`.
pub(super) fn renew_operation() -> Operation {
    about_lease::<_, _, _, Renewed>(
        "/v1/provider/leases/{attempt}/renew",
        "renew_lease",
        renew,
        &NewRenewal::example(),
        &[ProblemCode::LeaseConflict, ProblemCode::RequestConflict],
    )
    .says(
        "Renew a lease",
        "One that would not extend it is refused, and changes nothing.",
    )
}

/// `{request_id, job_id, lease_epoch, lease_ms?}` → 200 as for progress. The lease is to run for
/// `lease_ms` from now on, by default as long as leases are. One that would not extend it is refused,
/// and changes nothing.
async fn renew(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let id = asked.request_id()?;
    let longest = asked.state.store.settings().lease_ttl.micros() / 1_000;
    let length_ms = asked.fields.integer("lease_ms", 1..=longest.max(1))?;
    let length = length_ms.map(|ms| LeaseDuration::from_micros(ms.saturating_mul(1_000)));
    let length = length
        .transpose()
        .map_err(|problem| asked.fields.complaint("lease_ms", problem))?;
    let Asked {
        device,
        lease,
        fields,
        state,
    } = asked;
    fields.finish()?;
    let outside = state.actors.outside();
    answer(outside.renew(device, id, lease, length).await)
}

/// `POST /v1/provider/leases/{attempt}/grants`.
pub(super) fn grant_operation() -> Operation {
    about_lease::<_, _, _, GrantedLink>(
        "/v1/provider/leases/{attempt}/grants",
        "grant_link",
        grant,
        &NewGrant::example(),
        &[
            ProblemCode::LeaseConflict,
            ProblemCode::RequestConflict,
            ProblemCode::InvalidRequest,
        ],
    )
    .says(
        "Get a link",
        "A link to `get` an input by its name, or to `put` the `output` or an artifact. It may lead \
         past this gateway, without your token. A large output may be sent in parts.",
    )
}

/// `{request_id, job_id, lease_epoch, name, direction, first_part?}` → 200
/// `{url, object_key, parts?, replayed}`: a link to `get` an input by its name, or to `put` the
/// `output` or an artifact. `first_part` asks for links to parts of a large output.
async fn grant(mut asked: Asked) -> Result<HttpResponse, Problem> {
    let id = asked.request_id()?;
    let name = asked.fields.required("name", "a name")?;
    let direction: String = asked.fields.required("direction", "get or put")?;
    if !["get", "put"].contains(&direction.as_str()) {
        return Err(asked
            .fields
            .complaint("direction", "must be get or put")
            .into());
    }
    let first_part = asked
        .fields
        .optional("first_part", "a number from 1 to 10000")?;
    let frame = AgentFrame::Grant {
        lease: asked.lease,
        name,
        direction,
        first_part,
    };
    asked.ask(id, frame).await
}
