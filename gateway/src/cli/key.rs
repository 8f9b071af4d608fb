//! `fencepost key …`

use clap::Subcommand;
use fencepost_domain::ids::ApiKeyId;
use fencepost_store::Store;
use fencepost_store::views::ApiKeyView;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::error::CliError;
use super::ids::no_id;
use super::org;
use super::report::Report;
use super::table::table;
use super::written;

/// What shows ids of keys.
const SHOWN_BY: &str = "fencepost key list";

/// Buyers' API keys.
#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key. It is shown once.
    Create {
        /// The org: its id or its name.
        #[arg(long)]
        org: String,
        /// Make a key that begins with fp_test_ instead of fp_live_. It does and costs the same: the word is
        /// for people, and for programs that look for leaked keys.
        #[arg(long)]
        test: bool,
    },
    /// List keys, the latest first, revoked ones too: how each begins and ends, never the key, and when it
    /// was last used, to the hour.
    List {
        /// Only those of this org: its id or its name.
        #[arg(long)]
        org: Option<String>,
    },
    /// Make a key useless, from now on. Doing it again does no harm.
    Revoke {
        /// The key's id (not the key).
        key: String,
    },
}

pub(super) async fn run(store: &Store, command: &KeyCommand) -> Result<Report, CliError> {
    match command {
        KeyCommand::Create { org, test } => create(store, org, !test).await,
        KeyCommand::List { org } => list(store, org.as_deref()).await,
        KeyCommand::Revoke { key } => revoke(store, key_id(key)?).await,
    }
}

/// Never says the word again: it may be the key itself.
fn key_id(text: &str) -> Result<ApiKeyId, CliError> {
    if text.trim().starts_with("fp_") {
        let problem = "that is a key itself, and is now in your shell's history: revoke it by its id, \
                       which `fencepost key list` shows beside its last four characters";
        return Err(CliError::Refused(problem.to_owned()));
    }
    let id = text.trim().parse();
    id.map_err(|_| CliError::Refused(no_id(SHOWN_BY)))
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

async fn list(store: &Store, org: Option<&str>) -> Result<Report, CliError> {
    let org = match org {
        Some(org) => Some(org::find(store, org).await?),
        None => None,
    };
    let keys = store.api_keys(org, None).await?;
    let rows: Vec<_> = keys.iter().map(row).collect::<Result<_, _>>()?;
    let json: Vec<_> = keys.iter().map(as_json).collect::<Result<_, _>>()?;
    let headings = &["KEY'S ID", "ORG", "KEY", "CREATED", "LAST USED", "REVOKED"];
    Ok(Report::new(table(headings, &rows), json!({ "keys": json })))
}

fn row(key: &ApiKeyView) -> Result<Vec<String>, CliError> {
    let hint = key.hint.clone();
    let perhaps = |at: Option<OffsetDateTime>| {
        at.map_or_else(|| Ok(String::new()), |at| written(seconds(at)))
    };
    Ok(vec![
        key.id.to_string(),
        key.org.clone(),
        hint.unwrap_or_else(|| "?".to_owned()),
        written(seconds(key.created_at))?,
        perhaps(key.last_used_at)?,
        perhaps(key.revoked_at)?,
    ])
}

fn seconds(at: OffsetDateTime) -> OffsetDateTime {
    at.replace_nanosecond(0).unwrap_or(at)
}

fn as_json(key: &ApiKeyView) -> Result<Value, CliError> {
    Ok(json!({
        "key_id": key.id,
        "org_id": key.org_id,
        "org": key.org,
        "hint": key.hint,
        "created_at": written(key.created_at)?,
        "last_used_at": key.last_used_at.map(written).transpose()?,
        "revoked_at": key.revoked_at.map(written).transpose()?,
    }))
}

async fn revoke(store: &Store, key: ApiKeyId) -> Result<Report, CliError> {
    let changed = store.revoke_api_key(key).await?;
    let keys = store.api_keys(None, Some(key)).await?;
    let Some(view) = keys.first() else {
        return Err(CliError::unknown("key", key));
    };
    let (hint, org) = (view.hint.as_deref().unwrap_or("?"), &view.org);
    let at = view.revoked_at.map(written).transpose()?;
    let text = if changed {
        format!("The key {hint} of {org} opens nothing any more.")
    } else {
        let since = at.as_deref().unwrap_or("?");
        format!("The key {hint} of {org} has been revoked since {since}; nothing was changed.")
    };
    let json =
        json!({ "key_id": key, "org_id": view.org_id, "changed": changed, "revoked_at": at });
    Ok(Report::new(text, json))
}
