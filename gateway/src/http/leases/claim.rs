//! `POST /v1/provider/leases`: a device takes one job.

use std::collections::BTreeSet;

use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_actors::session::ClaimTold;
use fencepost_domain::field::FieldError;
use fencepost_domain::service::Capability;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_store::tx::claim_lease::LeaseRequest;
use serde_json::json;
use time::format_description::well_known::Rfc3339;

use super::answer::{body, refusal};
use super::reading::request_id;
use crate::http::auth::Device;
use crate::http::body::{Fields, read_agent_json};
use crate::http::problem::Problem;
use crate::http::state::AppState;

const MAX_CAPABILITIES: usize = 500;

/// `{request_id, capabilities?, slots?}` → 201 and the lease, with its secret this once; 200 and its
/// ids if the request was answered before; 204 if there is nothing for the device now.
///
/// `capabilities` are what the worker can do, by default what the device's agent said last; `slots`
/// counts for a device whose agent never connected.
pub(super) async fn claim(
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
        ClaimTold::Leased { scope, offer } => {
            let mut lease = body(&GatewayFrame::LeaseOffer(offer), false);
            lease["scope"] = json!(scope);
            HttpResponse::Created()
                .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
                .json(lease)
        }
        ClaimTold::Before(claimed) => {
            let expires_at = claimed.expires_at.format(&Rfc3339);
            HttpResponse::Ok().json(json!({
                "job_id": claimed.job,
                "attempt_id": claimed.attempt,
                "lease_epoch": claimed.epoch,
                "lease_expires_at": expires_at.map_err(|error| Problem::internal(&error))?,
                "replayed": true,
            }))
        }
        ClaimTold::Nothing => HttpResponse::NoContent().finish(),
        ClaimTold::ClockRegressed { retry_after_ms } => {
            refusal(Code::ClockRegressed, None, Some(retry_after_ms))
        }
        ClaimTold::Unauthorized => return Err(Device::unknown()),
        ClaimTold::OtherContent => {
            let what = "request_id: another claim had this id; use a new one for each";
            refusal(Code::RequestConflict, Some(what), None)
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
