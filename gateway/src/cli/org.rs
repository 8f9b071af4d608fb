//! `fencepost org …`

use clap::{Args, Subcommand};
use fencepost_domain::ids::OrgId;
use fencepost_domain::period::UtcMonth;
use fencepost_store::Store;
use fencepost_store::admin::{NewLimits, OrgUse};
use fencepost_store::views::{Balance, KindTotal};
use serde_json::{Value, json};

use super::amount;
use super::error::{CliError, name_taken};
use super::report::Report;
use super::table::table;
use super::text::{LONGEST_NAME, readable};

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
    /// Show what an org uses and may use, and change what it may.
    Limits(LimitsArgs),
    /// Show what moved on an account in one month, with its opening and closing balance.
    Statement {
        /// The org: its id or its name.
        org: String,
        /// The month, of UTC; without it, the one that it is now.
        #[arg(long)]
        month: Option<UtcMonth>,
    },
}

/// What an org may use; `default` is what everybody may.
#[derive(Debug, Args)]
pub(super) struct LimitsArgs {
    /// The org: its id or its name.
    org: String,
    /// The most attempts at once; `default` is no limit.
    #[arg(long, value_parser = limit)]
    max_live_attempts: Option<Limit>,
    /// The most jobs that have not ended.
    #[arg(long, value_parser = limit)]
    max_open_jobs: Option<Limit>,
    /// The most bytes of uploads and outputs.
    #[arg(long, value_parser = limit)]
    max_stored_bytes: Option<Limit>,
}

/// A limit of an org's own, or none.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<i64>);

fn limit(text: &str) -> Result<Limit, String> {
    if text == "default" {
        return Ok(Limit(None));
    }
    let number = text.parse().ok().filter(|number| *number >= 0);
    let number = number.ok_or("must be a whole number, or default")?;
    Ok(Limit(Some(number)))
}

pub(super) async fn run(store: &Store, command: &OrgCommand) -> Result<Report, CliError> {
    match command {
        OrgCommand::Create {
            name,
            max_live_attempts,
        } => create(store, name, *max_live_attempts).await,
        OrgCommand::List => list(store).await,
        OrgCommand::Limits(args) => limits(store, args).await,
        OrgCommand::Statement { org, month } => statement(store, org, *month).await,
    }
}

async fn create(store: &Store, name: &str, limit: Option<i64>) -> Result<Report, CliError> {
    let name = readable("a name", name, LONGEST_NAME)?;
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

async fn limits(store: &Store, args: &LimitsArgs) -> Result<Report, CliError> {
    let id = find(store, &args.org).await?;
    let own = |limit: Option<Limit>| limit.map(|Limit(own)| own);
    let new = NewLimits {
        live_attempts: own(args.max_live_attempts),
        open_jobs: own(args.max_open_jobs),
        stored_bytes: own(args.max_stored_bytes),
    };
    if new.live_attempts == Some(Some(0)) {
        let problem = "--max-live-attempts must be at least 1";
        return Err(CliError::Refused(problem.to_owned()));
    }
    if new != NewLimits::default() && !store.set_limits(id, new).await? {
        return Err(CliError::unknown("org", &args.org));
    }
    let used = store.org_use(id).await?;
    let used = used.ok_or_else(|| CliError::unknown("org", &args.org))?;
    Ok(limits_report(id, &used))
}

fn limits_report(org: OrgId, used: &OrgUse) -> Report {
    let most = used.max_live_attempts;
    let rows = [
        (
            "live attempts",
            used.live_attempts,
            most.map_or_else(|| "any".to_owned(), |most| most.to_string()),
        ),
        ("open jobs", used.open_jobs, used.max_open_jobs.to_string()),
        (
            "stored bytes",
            used.stored_bytes,
            used.max_stored_bytes.to_string(),
        ),
    ];
    let rows = rows.map(|(what, used, most)| vec![what.to_owned(), used.to_string(), most]);
    let json = json!({ "org_id": org, "limits": used });
    Report::new(table(&["LIMIT", "USED", "MOST"], &rows), json)
}

async fn statement(store: &Store, org: &str, month: Option<UtcMonth>) -> Result<Report, CliError> {
    let id = find(store, org).await?;
    let month = match month {
        Some(month) => month,
        None => UtcMonth::of(store.read_clock().await?.now),
    };
    let statement = store.statement(id, month.period()).await?;
    let statement = statement.ok_or_else(|| CliError::unknown("org", org))?;
    let totals = statement.totals.iter().map(|total| {
        vec![
            total.kind.as_str().to_owned(),
            total.postings.to_string(),
            amount::show(total.micros),
        ]
    });
    let text = format!(
        "{month} (UTC)\nopening  {}\nclosing  {}\n\n{}",
        shown(statement.opening),
        shown(statement.closing),
        table(&["KIND", "POSTINGS", "AMOUNT"], &totals.collect::<Vec<_>>())
    );
    let totals: Vec<Value> = statement.totals.iter().map(total).collect();
    let json = json!({
        "org_id": id,
        "month": month.to_string(),
        "opening": balance(statement.opening),
        "closing": balance(statement.closing),
        "totals": totals,
    });
    Ok(Report::new(text, json))
}

fn shown(balance: Balance) -> String {
    let (available, held) = (balance.available_micros, balance.held_micros);
    format!(
        "{} available, {} held",
        amount::show(available),
        amount::show(held)
    )
}

fn balance(balance: Balance) -> Value {
    json!({
        "available_micros": balance.available_micros,
        "held_micros": balance.held_micros,
    })
}

fn total(total: &KindTotal) -> Value {
    json!({
        "kind": total.kind.as_str(),
        "postings": total.postings,
        "micros": total.micros,
    })
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
