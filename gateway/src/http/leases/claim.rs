//! `POST /v1/provider/leases`: a device takes one job.

use std::collections::BTreeSet;

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_actors::session::ClaimTold;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::{AttemptId, JobId, OrgId};
use fencepost_domain::service::Capability;
use fencepost_protocol::{Code, LeaseOffer};
use fencepost_store::tx::claim_lease::LeaseRequest;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::private;
use super::reading::request_id;
use super::schema::NewClaim;
use crate::http::auth::Device;
use crate::http::body::{Fields, read_agent_json};
use crate::http::openapi::{Operation, Tag, Time, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

const MAX_CAPABILITIES: usize = 500;

/// A lease, with its secret this once.
#[derive(Serialize, JsonSchema)]
struct ClaimedLease {
    /// The org whose job it is: the lease's scope.
    scope: OrgId,
    /// False: this is the first answer to the request.
    replayed: bool,
    #[serde(flatten)]
    lease: Box<LeaseOffer>,
}

/// A lease that was claimed before; its secret is not handed out again.
#[derive(Debug, Serialize, JsonSchema)]
struct ClaimedBefore {
    /// The job.
    job_id: JobId,
    /// The attempt.
    attempt_id: AttemptId,
    /// The epoch that the claim gave out.
    lease_epoch: i64,
    /// The end of the lease as it was claimed.
    lease_expires_at: Time,
    /// True: the request was answered before.
    replayed: bool,
}

/// `POST /v1/provider/leases`.
pub(super) fn operation() -> Operation {
    Operation::post("/v1/provider/leases", "claim_lease", claim)
        .says(
            "Take one job",
            "A claim counts as accepted, and takes one of the device's slots.",
        )
        .of(Tag::Provider)
        .by(Who::Device)
        .takes(&NewClaim::example())
        .answers::<ClaimedLease>(201, "A lease, with its secret this once.")
        .answers::<ClaimedBefore>(200, "The lease that the same request got before.")
        .answers_nothing(204, "There is nothing for the device now.")
        .refuses_as(
            409,
            &[ProblemCode::ClockRegressed, ProblemCode::RequestConflict],
        )
}

/// `{request_id, capabilities?, slots?}` → 201 and the lease, with its secret this once; 200 and its
/// ids if the request was answered before; 204 if there is nothing for the device now.
///
/// `capabilities` are what the worker can do, by default what the device's agent said last; `slots`
/// counts for a device whose agent never connected.
async fn claim(
    request: HttpRequest,
    device: Device,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_agent_json(&request, payload).await?)?;
    let id = request_id(&mut fields)?;
    let capabilities = capabilities(&mut fields)?;
    let slots = fields.integer("slots", 1..=64)?.unwrap_or(1);
    fields.finish()?;
    let claim = LeaseRequest {
        device: device.id,
        token: device.token,
        id,
        capabilities,
        slots: u32::try_from(slots).unwrap_or(1),
    };
    Ok(match state.actors.outside().claim(claim).await? {
        ClaimTold::Leased { scope, offer } => private(HttpResponse::Created()).json(ClaimedLease {
            scope,
            replayed: false,
            lease: offer,
        }),
        ClaimTold::Before(claimed) => HttpResponse::Ok().json(ClaimedBefore {
            job_id: claimed.job,
            attempt_id: claimed.attempt,
            lease_epoch: claimed.epoch,
            lease_expires_at: Time(claimed.expires_at),
            replayed: true,
        }),
        ClaimTold::Nothing => HttpResponse::NoContent().finish(),
        ClaimTold::ClockRegressed { retry_after_ms } => {
            let after = Some(retry_after_ms);
            return Err(Problem::of_lease(Code::ClockRegressed, None, after));
        }
        ClaimTold::Unauthorized => return Err(Device::unknown()),
        ClaimTold::OtherContent => {
            let what = "request_id: another claim had this id; use a new one for each";
            let what = Some(what.to_owned());
            return Err(Problem::of_lease(Code::RequestConflict, what, None));
        }
    })
}

fn capabilities(fields: &mut Fields) -> Result<Option<BTreeSet<Capability>>, FieldError> {
    let expected = "a list of words such as transcode.v1";
    let Some(words) = fields.optional::<Vec<Capability>>("capabilities", expected)? else {
        return Ok(None);
    };
    if words.len() > MAX_CAPABILITIES || !words.iter().all(Capability::is_readable) {
        let problem = format!("must be at most {MAX_CAPABILITIES} short words without blanks");
        return Err(fields.complaint("capabilities", problem));
    }
    Ok(Some(words.into_iter().collect()))
}
