//! `/v1/balance`: an org's money.

use actix_web::{HttpResponse, web};
use serde_json::json;

use super::auth::Buyer;
use super::problem::Problem;
use super::state::AppState;

/// `GET /v1/balance` → `{available_micros, held_micros}`.
pub async fn get(buyer: Buyer, state: web::Data<AppState>) -> Result<HttpResponse, Problem> {
    let balance = state.store.balance(buyer.org).await?;
    let balance = balance.ok_or_else(|| Problem::not_found("account"))?;
    Ok(HttpResponse::Ok().json(json!({
        "available_micros": balance.available_micros,
        "held_micros": balance.held_micros,
    })))
}
