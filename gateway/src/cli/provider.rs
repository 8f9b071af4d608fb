//! `fencepost provider …`

use clap::Subcommand;
use fencepost_store::Store;
use serde_json::json;

use super::error::{CliError, name_taken};
use super::org::readable_name;
use super::report::Report;

/// Accounts that own devices and earn.
#[derive(Debug, Subcommand)]
pub(super) enum ProviderCommand {
    /// Open an account.
    Create {
        /// What people call it.
        name: String,
    },
}

pub(super) async fn run(store: &Store, command: &ProviderCommand) -> Result<Report, CliError> {
    let ProviderCommand::Create { name } = command;
    let name = readable_name(name)?;
    let created = store.create_provider(name).await;
    let provider = created.map_err(|error| name_taken(error, "provider", name))?;
    let next = format!("Next: fencepost device enroll --provider {provider}");
    let text = format!("Opened the provider {name:?}: {provider}\n{next}");
    Ok(Report::new(
        text,
        json!({ "provider_id": provider, "name": name }),
    ))
}
