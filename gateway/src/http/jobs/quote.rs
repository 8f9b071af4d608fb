//! `POST /v1/quotes`: what a job would cost, and whether it could run. The body is that of a create,
//! and so is what is refused; nothing is stored.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_store::tx::quote_job::Quoted;
use serde_json::json;

use super::create::refusal;
use super::{order, view};
use crate::http::auth::Buyer;
use crate::http::body::read_json;
use crate::http::problem::Problem;
use crate::http::state::AppState;

/// Price terms, the hold, whether the balance covers it, and what a device must have.
pub async fn quote(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = read_json(&request, payload).await?;
    let job = order::read(body, &state.config)?.of(buyer.org, None);
    let lane = job.lane.clone();
    let (service, terms, seconds) = (job.service.clone(), job.terms, job.max_output_seconds);
    let (held_micros, available_micros) = match state.store.quote_job(job).await? {
        Quoted::Price {
            held_micros,
            available_micros,
        } => (held_micros, available_micros),
        Quoted::Refused(why) => {
            refusal(&why)?;
            (0, 0)
        }
    };
    let asked = (buyer.org, lane.clone());
    let waiting = state.actors.shared().waiting.call(asked).await?;
    Ok(HttpResponse::Ok().json(json!({
        "service": service,
        "price": {
            "base_micros": terms.base_micros,
            "per_minute_micros": terms.per_minute_micros,
        },
        "max_output_seconds": seconds,
        "hold_micros": held_micros,
        "available_micros": available_micros,
        "is_covered": available_micros >= held_micros,
        "needs": lane.split(' ').collect::<Vec<_>>(),
        "waiting": waiting.as_ref().map(view::waiting),
    })))
}
