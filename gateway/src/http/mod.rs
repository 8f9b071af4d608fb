//! The HTTP API: one file per resource, one function per action.
//!
//! Every handler has the same shape: who asks ([`auth`]), what they ask ([`body`], [`query`]), one
//! call of the store, and the answer. What is refused is a [`problem::Problem`].

pub mod admin;
pub mod auth;
pub mod balance;
pub mod blobs;
pub mod body;
pub mod brake;
mod gauges;
pub mod jobs;
pub mod journal;
pub mod leases;
pub mod pair;
pub mod problem;
pub mod query;
pub mod request_id;
pub mod services;
pub mod state;
pub mod uploads;

use actix_web::HttpResponse;
use actix_web::web::{self, ServiceConfig};

use problem::{Problem, ProblemCode};

/// Every address of the API.
pub fn routes(config: &mut ServiceConfig) {
    config
        .service(
            resource("/v1/jobs")
                .route(web::post().to(jobs::create))
                .route(web::get().to(jobs::list)),
        )
        .service(resource("/v1/jobs/{job}").route(web::get().to(jobs::get)))
        .service(resource("/v1/jobs/{job}/cancel").route(web::post().to(jobs::cancel)))
        .service(resource("/v1/jobs/{job}/attempts").route(web::get().to(jobs::attempts)))
        .service(resource("/v1/jobs/{job}/artifacts").route(web::get().to(jobs::artifacts)))
        .service(resource("/v1/jobs/{job}/output").route(web::get().to(jobs::output)))
        .service(resource("/v1/quotes").route(web::post().to(jobs::quote)))
        .service(resource("/v1/uploads").route(web::post().to(uploads::create)))
        .service(
            resource("/v1/blobs/{link}")
                .route(web::get().to(blobs::get))
                .route(web::head().to(blobs::get))
                .route(web::put().to(blobs::put)),
        )
        .service(resource("/v1/services").route(web::get().to(services::list)))
        .service(resource("/v1/balance").route(web::get().to(balance::get)))
        .service(resource("/v1/journal").route(web::get().to(journal::list)))
        .service(resource("/v1/provider/pair").route(web::post().to(pair::pair)))
        .service(resource("/v1/provider/ws").route(web::get().to(crate::ws::upgrade)))
        .configure(leases::routes)
        .default_service(web::to(no_such_address));
}

/// A resource that names the problem when it is used with another method.
fn resource(path: &str) -> actix_web::Resource {
    web::resource(path).default_service(web::to(method_not_allowed))
}

async fn method_not_allowed() -> Result<HttpResponse, Problem> {
    let detail = "this address is used with another method";
    Err(Problem::new(ProblemCode::MethodNotAllowed, detail))
}

async fn no_such_address() -> Result<HttpResponse, Problem> {
    let detail = "there is nothing at this address";
    Err(Problem::new(ProblemCode::NotFound, detail))
}
