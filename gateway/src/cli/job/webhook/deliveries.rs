//! `fencepost webhook deliveries` and `redeliver`.

use clap::Args;
use fencepost_domain::ids::OutboxId;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Endpoint, word};
use crate::cli::ids::id;
use crate::cli::job::JobError;
use crate::cli::job::api::Api;
use crate::cli::job::paging::{Limit, pages};
use crate::cli::job::screen::Screen;
use crate::cli::job::view::seconds;
use crate::cli::table::Table;

/// The most deliveries of one page.
const PAGE: u32 = 100;
/// What shows ids of events.
const EVENTS_SHOWN_BY: &str = "fencepost webhook deliveries ENDPOINT";

/// Which deliveries.
#[derive(Debug, Args)]
pub(in crate::cli::job) struct DeliveriesArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Only those in this state.
    #[arg(long, value_parser = ["pending", "succeeded", "failed", "held"])]
    state: Option<String>,
    #[command(flatten)]
    limit: Limit,
}

/// What is sent again.
#[derive(Debug, Args)]
pub(in crate::cli::job) struct RedeliverArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// This event, whatever became of it.
    #[arg(long, value_name = "EVENT", required_unless_present = "since",
        value_parser = id::<OutboxId>(EVENTS_SHOWN_BY))]
    event: Option<OutboxId>,
    /// All events since then that failed or were held, such as 2026-11-30T00:00:00Z.
    #[arg(long, value_name = "TIME", conflicts_with = "event", value_parser = instant)]
    since: Option<String>,
}

pub(super) async fn list(
    api: &Api,
    screen: &Screen,
    args: &DeliveriesArgs,
) -> Result<(), JobError> {
    let state = args.state.clone().map(|state| ("state".to_owned(), state));
    let path = format!("{}/deliveries", args.endpoint.path());
    let mut table = Table::new(&["EVENT", "TYPE", "STATE", "TRIES", "LAST ANSWER", "NEXT TRY"]);
    let mut show = |page: &Value| {
        let deliveries = page["deliveries"].as_array().map_or(&[][..], Vec::as_slice);
        if screen.is_json() {
            for delivery in deliveries {
                screen.result("", delivery)?;
            }
        } else {
            let rows: Vec<_> = deliveries.iter().map(row).collect();
            Screen::lines(&table.lines(&rows))?;
        }
        Ok(deliveries.len())
    };
    let query = state.into_iter().collect();
    pages(api, &path, query, PAGE, args.limit, &mut show).await
}

fn row(delivery: &Value) -> Vec<String> {
    let tries = delivery["tries"].as_array().map_or(&[][..], Vec::as_slice);
    let last = tries.last().map(|last| match last["status"].as_i64() {
        Some(status) => status.to_string(),
        None => last["error"].as_str().unwrap_or("none").to_owned(),
    });
    vec![
        word(&delivery["event_id"]),
        word(&delivery["event_type"]),
        word(&delivery["state"]),
        tries.len().to_string(),
        last.unwrap_or_default(),
        delivery["next_try_at"]
            .as_str()
            .map(seconds)
            .unwrap_or_default(),
    ]
}

pub(super) async fn redeliver(
    api: &Api,
    screen: &Screen,
    args: &RedeliverArgs,
) -> Result<(), JobError> {
    let endpoint = args.endpoint.path();
    let (path, body) = match (&args.event, &args.since) {
        (Some(event), _) => (
            format!("{endpoint}/deliveries/{event}/redeliver"),
            json!({}),
        ),
        (None, since) => (format!("{endpoint}/redeliver"), json!({ "since": since })),
    };
    let answer = api.post(&path, &body).await?;
    let more = match answer["has_more"].as_bool() {
        Some(true) => "; there may be more: say it again",
        _ => "",
    };
    let text = match &answer["redelivered"] {
        one if *one == 1 => format!("1 delivery is in line again{more}"),
        count => format!("{count} deliveries are in line again{more}"),
    };
    Ok(screen.result(&text, &answer)?)
}

fn instant(text: &str) -> Result<String, String> {
    OffsetDateTime::parse(text, &Rfc3339)
        .map(|_| text.to_owned())
        .map_err(|_| "write it like 2026-11-30T00:00:00Z".to_owned())
}
