//! `fencepost key …`

use clap::Subcommand;
use fencepost_domain::ids::ApiKeyId;
use fencepost_store::Store;
use serde_json::json;

use super::error::CliError;
use super::org;
use super::report::Report;

/// Buyers' API keys.
#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key. It is shown once.
    Create {
        /// The org: its id or its name.
        #[arg(long)]
        org: String,
        /// Make a key that begins with fp_test_ instead of fp_live_.
        #[arg(long)]
        test: bool,
    },
    /// Make a key useless.
    Revoke {
        /// The key's id (not the key).
        key: ApiKeyId,
    },
}

pub(super) async fn run(store: &Store, command: &KeyCommand) -> Result<Report, CliError> {
    match command {
        KeyCommand::Create { org, test } => create(store, org, !test).await,
        KeyCommand::Revoke { key } => revoke(store, *key).await,
    }
}

async fn create(store: &Store, org: &str, live: bool) -> Result<Report, CliError> {
    let id = org::find(store, org).await?;
    let created = store.create_api_key(id, live).await?;
    let (key_id, key) = created.ok_or_else(|| CliError::unknown("org", org))?;
    let text = format!(
        "{}\nThis is the only time that the key is shown. To revoke it: fencepost key revoke {key_id}",
        key.expose()
    );
    let json = json!({ "key_id": key_id, "org_id": id, "key": key.expose() });
    Ok(Report::new(text, json))
}

async fn revoke(store: &Store, key: ApiKeyId) -> Result<Report, CliError> {
    if !store.revoke_api_key(key).await? {
        return Err(CliError::unknown("key (or no live one)", key));
    }
    Ok(Report::new(
        format!("The key {key} opens nothing any more."),
        json!({ "key_id": key }),
    ))
}
