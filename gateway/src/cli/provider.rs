//! `fencepost provider …`

use clap::Subcommand;
use fencepost_domain::ids::ProviderId;
use fencepost_store::Store;
use serde_json::{Value, json};

use super::error::{CliError, name_taken};
use super::org::readable_name;
use super::report::{Report, table};

/// Accounts that own devices and earn.
#[derive(Debug, Subcommand)]
pub(super) enum ProviderCommand {
    /// Open an account.
    Create {
        /// What people call it.
        name: String,
    },
    /// List all accounts.
    List,
}

pub(super) async fn run(store: &Store, command: &ProviderCommand) -> Result<Report, CliError> {
    match command {
        ProviderCommand::Create { name } => create(store, name).await,
        ProviderCommand::List => list(store).await,
    }
}

async fn create(store: &Store, name: &str) -> Result<Report, CliError> {
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

async fn list(store: &Store) -> Result<Report, CliError> {
    let providers = store.providers().await?;
    let rows: Vec<_> = providers
        .iter()
        .map(|(id, name)| vec![id.to_string(), name.clone()])
        .collect();
    let json: Vec<Value> = providers
        .iter()
        .map(|(id, name)| json!({ "provider_id": id, "name": name }))
        .collect();
    Ok(Report::new(
        table(&["PROVIDER", "NAME"], &rows),
        json!({ "providers": json }),
    ))
}

/// The provider that is meant by an id or a name.
pub(super) async fn find(store: &Store, id_or_name: &str) -> Result<ProviderId, CliError> {
    if let Ok(id) = id_or_name.parse() {
        return Ok(id);
    }
    let providers = store.providers().await?;
    let found = providers.iter().find(|(_, name)| name == id_or_name);
    found
        .map(|(id, _)| ProviderId(*id))
        .ok_or_else(|| CliError::unknown("provider", id_or_name))
}
