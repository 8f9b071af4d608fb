//! `fencepost provider …`

use clap::Subcommand;
use fencepost_domain::ids::ProviderId;
use fencepost_store::Store;
use serde_json::{Value, json};

use super::amount;
use super::error::{CliError, name_taken};
use super::report::Report;
use super::table::table;
use super::text::{LONGEST_NAME, readable};

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
    /// Show what a provider earned, by months of UTC.
    Earnings {
        /// The provider: its id or its name.
        provider: String,
    },
}

pub(super) async fn run(store: &Store, command: &ProviderCommand) -> Result<Report, CliError> {
    match command {
        ProviderCommand::Create { name } => create(store, name).await,
        ProviderCommand::List => list(store).await,
        ProviderCommand::Earnings { provider } => earnings(store, provider).await,
    }
}

async fn create(store: &Store, name: &str) -> Result<Report, CliError> {
    let name = readable("a name", name, LONGEST_NAME)?;
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

async fn earnings(store: &Store, provider: &str) -> Result<Report, CliError> {
    let id = find(store, provider).await?;
    let months = store.earnings(id).await?;
    let total: i64 = months.iter().map(|month| month.micros).sum();
    let rows: Vec<_> = months
        .iter()
        .map(|one| {
            vec![
                one.month.clone(),
                one.jobs.to_string(),
                amount::show(one.micros),
            ]
        })
        .collect();
    let text = format!(
        "{}\n{} altogether",
        table(&["MONTH", "JOBS", "EARNED"], &rows),
        amount::show(total)
    );
    let months: Vec<Value> = months
        .iter()
        .map(|one| json!({ "month": one.month, "jobs": one.jobs, "micros": one.micros }))
        .collect();
    let json = json!({ "provider_id": id, "total_micros": total, "months": months });
    Ok(Report::new(text, json))
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
