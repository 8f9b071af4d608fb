//! `/v1/provider/leases`: leases outside a socket, for workers that may span processes.
//!
//! The requests are those of a session, one for one, with the device's token as bearer. Each has a
//! `request_id` that is the device's own: the same one with the same content gets the same answer.

mod answer;
mod claim;
mod ends;
mod reading;
mod records;
mod schema;
mod work;

use actix_web::{FromRequest, Handler, Responder};
use schemars::JsonSchema;
use serde::Serialize;

use super::openapi::{Operation, Tag, Who};
use super::problem::ProblemCode;

/// Every operation on leases.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        claim::operation(),
        work::progress_operation(),
        work::renew_operation(),
        work::grant_operation(),
        records::event_operation(),
        records::artifact_operation(),
        records::retain_operation(),
        ends::commit_operation(),
        ends::fail_operation(),
        ends::release_operation(),
    ]
}

/// What all requests about one lease have in common.
fn about_lease<F, Args, B, A>(
    path: &'static str,
    id: &'static str,
    handler: F,
    example: &B,
    conflicts: &[ProblemCode],
) -> Operation
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
    B: Serialize + JsonSchema,
    A: JsonSchema,
{
    Operation::post(path, id, handler)
        .of(Tag::Provider)
        .by(Who::Device)
        .takes(example)
        .answers::<A>(200, "Done, or done before.")
        .refuses_as(
            409,
            &[ProblemCode::ClockRegressed, ProblemCode::InvalidRequest],
        )
        .refuses_as(409, conflicts)
        .refuses(&[ProblemCode::Busy])
}
