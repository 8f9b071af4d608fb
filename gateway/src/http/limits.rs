//! `/v1/limits`: how much an org uses, and may.

use actix_web::{HttpResponse, web};
use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Buyer;
use super::openapi::{Operation, Tag, Who};
use super::problem::{Problem, ProblemCode};
use super::state::AppState;

/// How much an org uses, and may.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrgLimits")]
struct Limits {
    /// Attempts that run at once; what is above waits.
    live_attempts: Limit,
    /// Jobs that have not ended; a create above is refused.
    open_jobs: Limit,
    /// Bytes of uploads and outputs; uploads and creates above are refused.
    stored_bytes: Limit,
}

/// How much of one thing.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrgLimit")]
struct Limit {
    /// How much there is.
    used: i64,
    /// The most; null is no limit.
    most: Option<i64>,
}

/// `GET /v1/limits`.
pub(super) fn operation() -> Operation {
    Operation::get("/v1/limits", "get_limits", get)
        .says("How much the org uses, and may", "")
        .of(Tag::Money)
        .by(Who::Buyer)
        .answers::<Limits>(200, "The limits.")
        .refuses(&[ProblemCode::NotFound])
}

async fn get(buyer: Buyer, state: web::Data<AppState>) -> Result<HttpResponse, Problem> {
    let now = state.store.org_use(buyer.org).await?;
    let now = now.ok_or_else(|| Problem::not_found("account"))?;
    let limit = |used, most| Limit { used, most };
    Ok(HttpResponse::Ok().json(Limits {
        live_attempts: limit(now.live_attempts, now.max_live_attempts),
        open_jobs: limit(now.open_jobs, Some(now.max_open_jobs)),
        stored_bytes: limit(now.stored_bytes, Some(now.max_stored_bytes)),
    }))
}
