//! `/v1/balance`: an org's money.

use actix_web::{HttpResponse, web};
use fencepost_store::views;
use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Buyer;
use super::openapi::{Operation, Tag, Who};
use super::problem::{Problem, ProblemCode};
use super::state::AppState;

/// What an org has.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Balance {
    /// What can be spent.
    available_micros: i64,
    /// What is held for jobs that have not ended.
    held_micros: i64,
}

impl From<views::Balance> for Balance {
    fn from(balance: views::Balance) -> Self {
        Self {
            available_micros: balance.available_micros,
            held_micros: balance.held_micros,
        }
    }
}

/// `GET /v1/balance`.
pub(super) fn operation() -> Operation {
    Operation::get("/v1/balance", "get_balance", get)
        .says(
            "What the org has",
            "What is available and what is held for jobs that have not ended.",
        )
        .of(Tag::Money)
        .by(Who::Buyer)
        .answers::<Balance>(200, "The balance.")
        .refuses(&[ProblemCode::NotFound])
}

async fn get(buyer: Buyer, state: web::Data<AppState>) -> Result<HttpResponse, Problem> {
    let balance = state.store.balance(buyer.org).await?;
    let balance = balance.ok_or_else(|| Problem::not_found("account"))?;
    Ok(HttpResponse::Ok().json(Balance::from(balance)))
}
