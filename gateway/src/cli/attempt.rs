//! `fencepost attempt …`

use clap::Subcommand;
use fencepost_domain::ids::AttemptId;
use fencepost_store::Store;
use fencepost_store::tx::revoke::Revoked;
use serde_json::json;

use super::error::CliError;
use super::ids::id;
use super::report::Report;

/// Runs of jobs on devices.
#[derive(Debug, Subcommand)]
pub(super) enum AttemptCommand {
    /// Take a lease back now: the attempt ends without a charge and its job waits again.
    ///
    /// Whatever its Mac still sends is refused. An output that is being checked is thrown away.
    Revoke {
        /// The attempt's id.
        #[arg(value_parser = id::<AttemptId>("fencepost job get JOB"))]
        attempt: AttemptId,
    },
}

pub(super) async fn run(store: &Store, command: &AttemptCommand) -> Result<Report, CliError> {
    let AttemptCommand::Revoke { attempt } = command;
    let revoked = store.revoke_attempt(*attempt).await?;
    let (end, changed) = match &revoked {
        Some(Revoked::Ended(end)) => (end, true),
        Some(Revoked::EndedBefore(end)) => (end, false),
        None => return Err(CliError::unknown("attempt", attempt)),
    };
    let (status, job) = (end.status().as_str(), end.job_status().as_str());
    let text = if changed {
        format!(
            "The attempt {attempt} is {status}; its job {} is {job}.",
            end.job()
        )
    } else {
        format!("The attempt {attempt} had ended before ({status}); nothing was changed.")
    };
    let json = json!({
        "attempt_id": attempt, "status": status, "changed": changed,
        "job_id": end.job(), "job_status": job,
    });
    Ok(Report::new(text, json))
}
