//! `POST /v1/quotes`: what a job would cost, and whether it could run. The body is that of a create,
//! and so is what is refused; nothing is stored.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::field::FieldError;
use fencepost_store::tx::quote_job::Quoted;
use fencepost_store::tx::submit_job::NewJob;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::create::refusal;
use super::order_schema::JobOrder;
use super::view::Waits;
use super::{input, order};
use crate::http::auth::Buyer;
use crate::http::body::read_json;
use crate::http::openapi::{Operation, Parameter, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::Query;
use crate::http::services::Price;
use crate::http::state::AppState;

/// What a job would cost.
#[derive(Debug, Serialize, JsonSchema)]
struct Quote {
    /// The service.
    service: String,
    /// Its price.
    price: Price,
    /// The longest output that this is for.
    max_output_seconds: u32,
    /// The highest price, which would be held.
    hold_micros: i64,
    /// What the org has.
    available_micros: i64,
    /// Whether that covers the hold.
    is_covered: bool,
    /// The words that a device must have.
    needs: Vec<String>,
    /// Why it would wait now, as far as that can be said.
    waiting: Option<Waits>,
}

/// `POST /v1/quotes`.
pub(in crate::http) fn operation() -> Operation {
    Operation::post("/v1/quotes", "quote_job", quote)
        .says(
            "What a job would cost",
            "The body is that of a create, and so is what is refused; nothing is stored.",
        )
        .of(Tag::Money)
        .by(Who::Buyer)
        .reads(Parameter::query(
            "unsent",
            json!({ "type": "string" }),
            "Names of inputs whose files are not sent yet, with commas between them: what the body says \
             of these is not looked for, so that a job can be checked before its files are sent. Any id will do \
             there as their `upload_id`.",
        ))
        .takes(&JobOrder::example())
        .answers::<Quote>(200, "The price, and whether the job could run now.")
        .refuses(&[ProblemCode::QuotaExceeded, ProblemCode::UploadIncomplete])
}

/// Price terms, the hold, whether the balance covers it, and what a device must have.
async fn quote(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let body = read_json(&request, payload).await?;
    let order = order::read(body, &state.config)?;
    let mut query = Query::parse(request.query_string())?;
    let unsent = query.take("unsent", |names| Some(names.to_owned()), "names of inputs")?;
    query.finish()?;
    let unsent: Vec<_> = names_of(unsent.as_deref().unwrap_or_default()).collect();
    let inputs = order.inputs().iter();
    let looked_for = inputs.filter(|(name, _)| !unsent.contains(&name.as_str()));
    input::admit(looked_for, state.webhooks.guarded.guard()).await?;
    let mut job = order.of(buyer.org, None, &state.webhooks.vault);
    leave_out(&mut job, &unsent)?;
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
    Ok(HttpResponse::Ok().json(Quote {
        service,
        price: Price::of(terms),
        max_output_seconds: seconds,
        hold_micros: held_micros,
        available_micros,
        is_covered: available_micros >= held_micros,
        needs: lane.split(' ').map(str::to_owned).collect(),
        waiting: waiting.as_ref().map(Waits::of),
    }))
}

/// Forgets the inputs that are not sent yet; their names were checked with the rest of the order.
fn leave_out(job: &mut NewJob, unsent: &[&str]) -> Result<(), FieldError> {
    for name in unsent {
        let before = job.inputs.len();
        job.inputs.retain(|(input, _)| input != name);
        if job.inputs.len() == before {
            let problem = format!("{} has no input {name:?}", job.service);
            return Err(FieldError::new("unsent", problem));
        }
    }
    Ok(())
}

fn names_of(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|name| !name.is_empty())
}
