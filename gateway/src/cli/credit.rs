//! `fencepost credit …`

use clap::Subcommand;
use fencepost_store::Store;
use serde_json::json;

use super::amount;
use super::error::CliError;
use super::org;
use super::report::Report;

/// Buyers' money.
#[derive(Debug, Subcommand)]
pub(super) enum CreditCommand {
    /// Add to an org's balance.
    Add {
        /// The org: its id or its name.
        #[arg(long)]
        org: String,
        /// How much, in currency units: 25 or 0.50.
        #[arg(value_parser = amount::parse)]
        amount: i64,
    },
}

pub(super) async fn run(store: &Store, command: &CreditCommand) -> Result<Report, CliError> {
    let CreditCommand::Add { org, amount } = command;
    let id = org::find(store, org).await?;
    let available = store.add_credit(id, *amount).await?;
    let available = available.ok_or_else(|| CliError::unknown("org", org))?;
    let text = format!(
        "Added {}; {} can be spent now.",
        amount::show(*amount),
        amount::show(available)
    );
    let json = json!({ "org_id": id, "added_micros": amount, "available_micros": available });
    Ok(Report::new(text, json))
}
