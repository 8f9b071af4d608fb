//! `fencepost org …`

use clap::Subcommand;
use fencepost_domain::ids::OrgId;
use fencepost_store::Store;
use serde_json::{Value, json};

use super::error::{CliError, name_taken};
use super::report::{Report, table};

/// Buyers' accounts.
#[derive(Debug, Subcommand)]
pub(super) enum OrgCommand {
    /// Open an account.
    Create {
        /// What people call it.
        name: String,
        /// The most attempts that may run at once; without it, there is no limit.
        #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
        max_live_attempts: Option<i64>,
    },
    /// List all accounts.
    List,
}

pub(super) async fn run(store: &Store, command: &OrgCommand) -> Result<Report, CliError> {
    match command {
        OrgCommand::Create {
            name,
            max_live_attempts,
        } => create(store, name, *max_live_attempts).await,
        OrgCommand::List => list(store).await,
    }
}

async fn create(store: &Store, name: &str, limit: Option<i64>) -> Result<Report, CliError> {
    let name = readable_name(name)?;
    let created = store.create_org(name, limit).await;
    let org = created.map_err(|error| name_taken(error, "org", name))?;
    let next = format!("Next: fencepost key create --org {org}");
    let text = format!("Opened the org {name:?}: {org}\n{next}");
    Ok(Report::new(text, json!({ "org_id": org, "name": name })))
}

async fn list(store: &Store) -> Result<Report, CliError> {
    let orgs = store.orgs().await?;
    let rows: Vec<_> = orgs
        .iter()
        .map(|(id, name)| vec![id.to_string(), name.clone()])
        .collect();
    let json: Vec<Value> = orgs
        .iter()
        .map(|(id, name)| json!({ "org_id": id, "name": name }))
        .collect();
    Ok(Report::new(
        table(&["ORG", "NAME"], &rows),
        json!({ "orgs": json }),
    ))
}

/// The org that is meant by an id or a name.
pub(super) async fn find(store: &Store, id_or_name: &str) -> Result<OrgId, CliError> {
    if let Ok(id) = id_or_name.parse() {
        return Ok(id);
    }
    let orgs = store.orgs().await?;
    let found = orgs.iter().find(|(_, name)| name == id_or_name);
    found
        .map(|(id, _)| OrgId(*id))
        .ok_or_else(|| CliError::unknown("org", id_or_name))
}

/// A name that can be stored and read.
pub(super) fn readable_name(name: &str) -> Result<&str, CliError> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 200 || name.contains(char::is_control) {
        return Err(CliError::Refused(
            "a name has 1 to 200 readable characters".to_owned(),
        ));
    }
    Ok(name)
}
