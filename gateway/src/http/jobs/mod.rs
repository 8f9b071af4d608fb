//! `/v1/jobs`: what buyers ask for, and what became of it.

pub(super) mod artifacts;
pub(super) mod attempts;
pub(super) mod cancel;
pub(super) mod create;
pub(super) mod delete;
pub(super) mod delete_output;
pub(super) mod events;
pub(super) mod get;
pub(super) mod headers;
mod input;
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

use super::path_id::path_id;
use super::problem::Problem;

/// The job that an address names.
fn job_id(text: &str) -> Result<JobId, Problem> {
    path_id("job", text)
}
