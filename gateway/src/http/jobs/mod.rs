//! `/v1/jobs`: what buyers ask for, and what became of it.

mod attempts;
mod cancel;
mod create;
mod get;
mod headers;
mod list;
mod order;
mod output;
mod quote;
mod view;

pub use attempts::{artifacts, attempts};
pub use cancel::cancel;
pub use create::create;
pub use get::get;
pub use list::list;
pub use output::output;
pub use quote::quote;

pub(crate) use order::is_label;

use fencepost_domain::ids::JobId;

use super::problem::Problem;

/// The job that an address names. What is no id is no job.
fn job_id(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|_| Problem::not_found("job"))
}
