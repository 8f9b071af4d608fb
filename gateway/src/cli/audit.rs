//! `fencepost audit …`

use clap::Subcommand;
use fencepost_store::Store;
use fencepost_store::views::AuditView;
use serde_json::{Value, json};

use super::error::CliError;
use super::report::Report;
use super::table::table;
use super::written;

/// What operators did.
#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// List what was done, the latest first.
    List {
        /// Only what was done to this: an id, or `clock`.
        #[arg(long)]
        subject: Option<String>,
        /// At most so many lines.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=1000))]
        limit: i64,
    },
}

pub(super) async fn run(store: &Store, command: &AuditCommand) -> Result<Report, CliError> {
    let AuditCommand::List { subject, limit } = command;
    let lines = store.audit_log(subject.clone(), *limit).await?;
    let rows: Result<Vec<_>, _> = lines.iter().map(row).collect();
    let json: Result<Vec<_>, _> = lines.iter().map(as_json).collect();
    let headings = &["AT", "ACTOR", "ACTION", "SUBJECT", "DETAIL"];
    Ok(Report::new(
        table(headings, &rows?),
        json!({ "lines": json? }),
    ))
}

fn row(line: &AuditView) -> Result<Vec<String>, CliError> {
    Ok(vec![
        written(line.at)?,
        line.actor.clone(),
        line.action.clone(),
        line.subject.clone(),
        line.detail.to_string(),
    ])
}

fn as_json(line: &AuditView) -> Result<Value, CliError> {
    Ok(json!({
        "at": written(line.at)?,
        "actor": line.actor,
        "action": line.action,
        "subject": line.subject,
        "detail": line.detail,
    }))
}
