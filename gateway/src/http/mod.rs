//! The HTTP API: one file per resource, one function per action.
//!
//! Every handler has the same shape: who asks ([`auth`]), what they ask ([`body`], [`query`]), one
//! call of the store, and the answer. What is refused is a [`problem::Problem`].

mod address;
pub mod admin;
pub mod auth;
pub mod balance;
pub mod blobs;
pub mod body;
pub mod brake;
mod gauges;
pub mod jobs;
pub mod journal;
pub mod kept_uploads;
pub mod leases;
pub mod limit;
pub mod limits;
pub mod openapi;
mod pages;
pub mod pair;
mod path_id;
pub mod problem;
mod problem_codes;
pub mod query;
pub mod request_id;
pub mod services;
pub mod state;
pub mod uploads;
pub mod webhooks;

use actix_web::http::Method;
use actix_web::http::header::ALLOW;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpResponse, ResponseError as _};

use openapi::Operation;
use problem::{Problem, ProblemCode};

/// Every operation of the API: what is registered, and what is described.
pub fn operations() -> Vec<Operation> {
    let mut all = vec![
        openapi::operation(),
        jobs::create::operation(),
        jobs::list::operation(),
        jobs::get::operation(),
        jobs::cancel::operation(),
        jobs::delete::operation(),
        jobs::events::operation(),
        jobs::attempts::operation(),
        jobs::artifacts::operation(),
        jobs::output::operation(),
        jobs::delete_output::operation(),
        uploads::operation(),
        kept_uploads::get_operation(),
        kept_uploads::delete_operation(),
        uploads::complete::operation(),
        blobs::get::operation(),
        blobs::get::head_operation(),
        blobs::put::operation(),
        services::operation(),
        jobs::quote::operation(),
        balance::operation(),
        limits::operation(),
        journal::operation(),
        pair::operation(),
        crate::ws::operation(),
    ];
    all.extend(webhooks::operations());
    all.extend(leases::operations());
    all
}

/// Registers every operation, and the pages beside them.
pub fn routes(config: &mut ServiceConfig) {
    let mut addresses: Vec<Address> = Vec::new();
    for operation in operations() {
        let (path, method, route) = operation.into_route();
        let known = addresses.iter_mut().find(|known| known.path == path);
        match known {
            Some(known) => known.routes.push((method, route)),
            None => addresses.push(Address {
                path,
                routes: vec![(method, route)],
            }),
        }
    }
    for address in addresses {
        config.service(address.into_resource());
    }
    config
        .configure(pages::routes)
        .default_service(web::to(no_such_address));
}

/// All that can be done at one address.
struct Address {
    path: &'static str,
    routes: Vec<(Method, actix_web::Route)>,
}

impl Address {
    /// A resource that names the problem when it is used with another method.
    fn into_resource(self) -> actix_web::Resource {
        let methods: Vec<_> = self
            .routes
            .iter()
            .map(|(method, _)| method.as_str())
            .collect();
        let allowed = methods.join(", ");
        let other = web::to(move || std::future::ready(method_not_allowed(&allowed)));
        let resource = web::resource(self.path).default_service(other);
        let routes = self.routes.into_iter();
        routes.fold(resource, |resource, (_, route)| resource.route(route))
    }
}

fn method_not_allowed(allowed: &str) -> HttpResponse {
    let detail = format!("this address is used with {allowed}");
    let problem = Problem::new(ProblemCode::MethodNotAllowed, detail);
    let mut response = problem.error_response();
    if let Ok(value) = allowed.parse() {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

async fn no_such_address() -> Result<HttpResponse, Problem> {
    let detail = "there is nothing at this address";
    Err(Problem::new(ProblemCode::NotFound, detail))
}
