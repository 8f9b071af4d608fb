//! The description of the API (OpenAPI 3.1), made of the same table that registers its routes.
//!
//! How to describe a route: beside its handler, write its answer and its body as structs (`Serialize`,
//! `JsonSchema`, a doc comment on each field), and a function `operation() -> Operation` that says
//! method, path, handler, who may ask, what is answered and which problems there are; add that
//! function to [`super::operations`]. Nothing else registers routes. `make openapi` renews the
//! committed copy, docs/openapi.json.

mod document;
mod operation;
mod parameters;
mod problems;
mod types;
mod webhooks;

pub use document::document;
pub use operation::{Operation, Tag, Who};
pub use parameters::Parameter;
pub use types::Time;

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header::CACHE_CONTROL;
use schemars::JsonSchema;

/// The document as it is served; it says the same for as long as the process runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// An OpenAPI 3.1 document.
#[derive(JsonSchema)]
#[schemars(inline, extend("required" = ["openapi", "info", "paths"]))]
struct Document {}

/// `GET /v1/openapi.json`.
pub(super) fn operation() -> Operation {
    Operation::get("/v1/openapi.json", "get_openapi", get)
        .says("This description", "Needs no key.")
        .of(Tag::About)
        .by(Who::Anybody)
        .answers::<Document>(200, "This document.")
}

async fn get() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((CACHE_CONTROL, "public, max-age=60"))
        .body(DOCUMENT.as_str())
}

#[cfg(test)]
mod tests;
