//! `/v1/services`: what can be asked for, and what it costs.

use actix_web::{HttpResponse, web};
use fencepost_domain::service::ServiceName;
use serde_json::{Value, json};

use super::auth::Buyer;
use super::state::AppState;

/// `GET /v1/services` → `{services: [{name, summary, inputs, params_schema, price}]}`.
pub async fn list(_buyer: Buyer, state: web::Data<AppState>) -> HttpResponse {
    let services: Vec<Value> = ServiceName::ALL
        .into_iter()
        .filter(|service| state.config.offers(*service))
        .map(|service| {
            let price = state.config.price_of(service);
            json!({
                "name": service.as_str(),
                "summary": service.summary(),
                "inputs": service.input_names(),
                "params_schema": service.params_schema(),
                "price": {
                    "base_micros": price.base_micros,
                    "per_minute_micros": price.per_minute_micros,
                },
            })
        })
        .collect();
    HttpResponse::Ok().json(json!({ "services": services }))
}
