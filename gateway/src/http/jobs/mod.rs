//! `/v1/jobs`: what buyers ask for, and what became of it.

pub(super) mod artifacts;
pub(super) mod attempts;
pub(super) mod cancel;
pub(super) mod create;
pub(super) mod delete_output;
pub(super) mod events;
pub(super) mod get;
pub(super) mod headers;
pub(super) mod list;
mod order;
mod order_schema;
pub(super) mod output;
pub(super) mod quote;
mod sse;
mod told;
mod view;

pub(crate) use order::is_label;

use fencepost_domain::ids::JobId;

use super::problem::Problem;

/// The job that an address names. What is no id is no job.
fn job_id(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|_| Problem::not_found("job"))
}
