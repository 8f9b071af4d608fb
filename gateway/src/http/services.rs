//! `/v1/services`: what can be asked for, and what it costs.

use actix_web::{HttpResponse, web};
use fencepost_domain::ledger::PriceTerms;
use fencepost_domain::service::{InputForm, InputSlot, ServiceName};
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use super::auth::Buyer;
use super::openapi::{Operation, Tag, Who};
use super::state::AppState;

/// What can be asked for here.
#[derive(Debug, Serialize, JsonSchema)]
struct Catalogue {
    /// Every service that is offered.
    services: Vec<Service>,
}

/// One service.
#[derive(Debug, Serialize, JsonSchema)]
struct Service {
    /// Its name and version, such as `transcode.v1`.
    name: &'static str,
    /// What it does, in one sentence.
    summary: &'static str,
    /// Its inputs; a job gives exactly these.
    inputs: Vec<Input>,
    /// JSON Schema (2020-12) of its parameters.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    params_schema: Schema,
    /// What a job costs that is posted now.
    price: Price,
}

/// An input, or a family of them.
#[derive(Debug, Serialize, JsonSchema)]
struct Input {
    /// Its name; a `{n}` in it stands for a number from 1 to `max`, as in `clip_1`, `clip_2`.
    name: String,
    /// What it holds.
    summary: &'static str,
    /// In what form a job gives it.
    form: Form,
    /// The fewest of them; 0 may be left out.
    min: u8,
    /// The most of them.
    max: u8,
}

/// In what form a job gives an input.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// One file, by `upload_id` or by `url`.
    File,
    /// Many files: the `url` and the `sha256` of a manifest that lists them.
    Bundle,
}

impl From<InputForm> for Form {
    fn from(form: InputForm) -> Self {
        match form {
            InputForm::File => Self::File,
            InputForm::Bundle => Self::Bundle,
        }
    }
}

impl From<&InputSlot> for Input {
    fn from(slot: &InputSlot) -> Self {
        Self {
            name: slot.pattern(),
            summary: slot.holds,
            form: slot.form.into(),
            min: slot.fewest(),
            max: slot.most(),
        }
    }
}

/// A price; failed and cancelled jobs are free.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Price {
    /// For starting at all.
    base_micros: i64,
    /// For every started minute of output.
    per_minute_micros: i64,
}

impl Price {
    /// What buyers see of price terms.
    pub(super) fn of(terms: PriceTerms) -> Self {
        Self {
            base_micros: terms.base_micros,
            per_minute_micros: terms.per_minute_micros,
        }
    }
}

/// `GET /v1/services`.
pub(super) fn operation() -> Operation {
    Operation::get("/v1/services", "list_services", list)
        .says(
            "What can be asked for",
            "Every service with the JSON Schema of its parameters and its price.",
        )
        .of(Tag::Services)
        .by(Who::Buyer)
        .answers::<Catalogue>(200, "The services.")
}

async fn list(_buyer: Buyer, state: web::Data<AppState>) -> HttpResponse {
    let offered = ServiceName::ALL
        .into_iter()
        .filter(|service| state.config.offers(*service));
    let services = offered.map(|service| {
        let price = state.config.price_of(service);
        Service {
            name: service.as_str(),
            summary: service.summary(),
            inputs: service.inputs().iter().map(Input::from).collect(),
            params_schema: service.params_schema(),
            price: Price::of(price),
        }
    });
    HttpResponse::Ok().json(Catalogue {
        services: services.collect(),
    })
}
