//! `/v1/webhook-endpoints`: where a buyer's events are sent, and what became of them.

mod create;
mod deliveries;
mod endpoints;
mod read;
mod redeliver;
mod rotate;
mod view;

use fencepost_domain::ids::{EndpointId, OutboxId};

use super::openapi::Operation;
use super::path_id::path_id;
use super::problem::Problem;

/// Every operation below `/v1/webhook-endpoints`.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        create::operation(),
        endpoints::list_operation(),
        endpoints::get_operation(),
        endpoints::change_operation(),
        endpoints::delete_operation(),
        rotate::operation(),
        deliveries::list_operation(),
        deliveries::get_operation(),
        redeliver::one_operation(),
        redeliver::since_operation(),
    ]
}

/// The endpoint that an address names.
fn endpoint_id(text: &str) -> Result<EndpointId, Problem> {
    path_id("webhook endpoint", text)
}

/// The event that an address names.
fn event_id(text: &str) -> Result<OutboxId, Problem> {
    path_id("event", text)
}

fn no_endpoint() -> Problem {
    Problem::not_found("webhook endpoint")
}

fn no_delivery() -> Problem {
    Problem::not_found("delivery")
}
