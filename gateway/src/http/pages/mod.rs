//! `/docs`: pages for people, from the binary alone, so that they are there without an internet.
//!
//! They are no part of the API, so its description says nothing of them.

mod problems;
mod reader;

use actix_web::web::{self, ServiceConfig};

/// Registers the pages.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .route("/docs", web::get().to(reader::to_first_page))
        .route("/docs/problems", web::get().to(problems::page))
        .route("/docs/{file:[^/]*}", web::get().to(reader::file));
}
