//! `fencepost job cancel`.

use clap::Args;
use fencepost_domain::ids::JobId;

use super::JobError;
use super::SHOWN_BY;
use super::api::Api;
use super::screen::Screen;
use crate::cli::ids::id;

/// Cancels a job.
#[derive(Debug, Args)]
pub(super) struct CancelArgs {
    /// The job's id.
    #[arg(value_parser = id::<JobId>(SHOWN_BY))]
    job: JobId,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &CancelArgs) -> Result<(), JobError> {
    let answer = api.cancel(args.job).await?;
    let job = args.job;
    let text = match answer["status"].as_str().unwrap_or("?") {
        "cancelled" => format!("job {job} is cancelled; nothing is charged"),
        "cancelling" => format!("job {job} is being cancelled: it ends when its Mac has stopped"),
        other => format!("job {job} has {other} already"),
    };
    Ok(screen.result(&text, &answer)?)
}
