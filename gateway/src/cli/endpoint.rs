//! `fencepost endpoint …`

use clap::Subcommand;
use fencepost_domain::ids::{EndpointId, OutboxId};
use fencepost_store::Store;
use fencepost_store::tx::webhooks::redeliver::{MOST_REDELIVERED, Redelivered, Which};
use fencepost_store::views::EndpointView;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::clock::this_person;
use super::error::CliError;
use super::ids::id;
use super::org;
use super::report::Report;
use super::table::table;

/// What shows ids of endpoints.
const SHOWN_BY: &str = "fencepost endpoint list";

/// Where buyers' events are sent.
#[derive(Debug, Subcommand)]
pub(super) enum EndpointCommand {
    /// List webhook endpoints, of one org or of all.
    List {
        /// The org (id or name).
        #[arg(long)]
        org: Option<String>,
    },
    /// Send nothing to an endpoint any more. Its buyer is told; what waits for it is held.
    Disable {
        /// The endpoint's id.
        #[arg(value_parser = id::<EndpointId>(SHOWN_BY))]
        endpoint: EndpointId,
    },
    /// Send to an endpoint again. What was held stays so until it is asked for (`redeliver`).
    Enable {
        /// The endpoint's id.
        #[arg(value_parser = id::<EndpointId>(SHOWN_BY))]
        endpoint: EndpointId,
    },
    /// Put deliveries back in line: one, or all since a time that failed or were held.
    Redeliver {
        /// The endpoint's id.
        #[arg(value_parser = id::<EndpointId>(SHOWN_BY))]
        endpoint: EndpointId,
        /// The delivery's event, whatever became of it.
        #[arg(long, value_name = "EVENT", required_unless_present = "since",
            value_parser = id::<OutboxId>("fencepost webhook deliveries ENDPOINT"))]
        event: Option<OutboxId>,
        /// All of events since then, such as 2026-11-30T00:00:00Z.
        #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "event")]
        since: Option<OffsetDateTime>,
    },
}

fn parse_time(text: &str) -> Result<OffsetDateTime, String> {
    OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| "write it like 2026-11-30T00:00:00Z".to_owned())
}

pub(super) async fn run(store: &Store, command: &EndpointCommand) -> Result<Report, CliError> {
    match command {
        EndpointCommand::List { org } => list(store, org.as_deref()).await,
        EndpointCommand::Disable { endpoint } => switch(store, *endpoint, false).await,
        EndpointCommand::Enable { endpoint } => switch(store, *endpoint, true).await,
        EndpointCommand::Redeliver {
            endpoint,
            event,
            since,
        } => {
            let which = match (event, since) {
                (Some(event), _) => Which::One(*event),
                (None, Some(since)) => Which::Since(*since),
                (None, None) => {
                    return Err(CliError::Refused("give --event or --since".to_owned()));
                }
            };
            redeliver(store, *endpoint, which).await
        }
    }
}

async fn list(store: &Store, org: Option<&str>) -> Result<Report, CliError> {
    let org = match org {
        Some(org) => Some(org::find(store, org).await?),
        None => None,
    };
    let endpoints = store.endpoints(org, None).await?;
    let rows: Vec<_> = endpoints.iter().map(row).collect();
    let json: Vec<Value> = endpoints.iter().map(as_json).collect();
    let headings = &["ENDPOINT", "ORG", "HOST", "STATE", "FAILING SINCE"];
    Ok(Report::new(
        table(headings, &rows),
        json!({ "endpoints": json }),
    ))
}

/// The host alone: what comes after it may be a secret between the buyer and their receiver.
fn host(endpoint: &EndpointView) -> String {
    let url = url::Url::parse(&endpoint.url).ok();
    let host = url.and_then(|url| url.host_str().map(ToOwned::to_owned));
    host.unwrap_or_else(|| "?".to_owned())
}

fn state(endpoint: &EndpointView) -> String {
    match &endpoint.disabled_reason {
        None => "enabled".to_owned(),
        Some(reason) => format!("disabled ({reason})"),
    }
}

fn written(at: Option<OffsetDateTime>) -> Option<String> {
    at.and_then(|at| at.format(&Rfc3339).ok())
}

fn row(endpoint: &EndpointView) -> Vec<String> {
    vec![
        endpoint.id.to_string(),
        endpoint.org_id.to_string(),
        host(endpoint),
        state(endpoint),
        written(endpoint.failing_since).unwrap_or_default(),
    ]
}

fn as_json(endpoint: &EndpointView) -> Value {
    json!({
        "endpoint_id": endpoint.id,
        "org_id": endpoint.org_id,
        "host": host(endpoint),
        "event_types": endpoint.event_types,
        "enabled": endpoint.enabled,
        "disabled_reason": endpoint.disabled_reason,
        "disabled_at": written(endpoint.disabled_at),
        "failing_since": written(endpoint.failing_since),
    })
}

async fn switch(store: &Store, endpoint: EndpointId, enabled: bool) -> Result<Report, CliError> {
    let actor = this_person();
    if !store
        .set_endpoint_enabled(&actor, endpoint, enabled)
        .await?
    {
        return Err(CliError::unknown("webhook endpoint", endpoint));
    }
    let what = if enabled { "enabled" } else { "disabled" };
    Ok(Report::new(
        format!("The webhook endpoint {endpoint} is {what}."),
        json!({ "endpoint_id": endpoint, "enabled": enabled }),
    ))
}

async fn redeliver(store: &Store, endpoint: EndpointId, which: Which) -> Result<Report, CliError> {
    let actor = this_person();
    let done = store.redeliver_as_operator(&actor, endpoint, which).await?;
    match done {
        Redelivered::Queued(count) => {
            let more = if count >= MOST_REDELIVERED {
                " There may be more: say it again."
            } else {
                ""
            };
            Ok(Report::new(
                format!("{count} deliveries are in line again.{more}"),
                json!({ "endpoint_id": endpoint, "redelivered": count }),
            ))
        }
        Redelivered::Unknown => Err(CliError::unknown(
            "such delivery, or webhook endpoint",
            endpoint,
        )),
        Redelivered::Disabled => Err(CliError::Refused(format!(
            "the webhook endpoint {endpoint} is disabled: fencepost endpoint enable {endpoint}"
        ))),
    }
}
