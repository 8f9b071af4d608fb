//! `fencepost balance` and `fencepost journal`.

use clap::Args;
use fencepost_domain::ledger::PostingKind;
use fencepost_domain::period::UtcMonth;
use serde_json::Value;

use super::JobError;
use super::api::Api;
use super::paging::{Limit, pages};
use super::screen::Screen;
use super::view::seconds;
use crate::cli::amount::show;
use crate::cli::table::{Table, facts};

/// The most postings of one page.
const PAGE: u32 = 500;

pub(super) const JOURNAL_EXAMPLES: &str = "\
Examples:
  fencepost journal --limit 10
  fencepost journal --month 2026-11 --all
  fencepost journal --kind credit --all --json | jq -s 'map(.amount_micros) | add'

With --month, the balances at its beginning and end are said on stderr. Months are months of UTC.";

/// Every movement of your money, the latest first.
#[derive(Debug, Args)]
pub(super) struct JournalFilter {
    /// Only those of this month of UTC, such as 2026-11.
    #[arg(long)]
    month: Option<UtcMonth>,
    /// Only those of this kind.
    #[arg(long, value_parser = PostingKind::ALL.map(PostingKind::as_str))]
    kind: Option<String>,
    #[command(flatten)]
    limit: Limit,
}

pub(super) async fn balance(api: &Api, screen: &Screen) -> Result<(), JobError> {
    let balance = api.get("v1/balance", &[]).await?;
    let amount = |name: &str| balance[name].as_i64().map(show);
    let text = facts(&[
        ("available", amount("available_micros")),
        ("held", amount("held_micros")),
    ]);
    Ok(screen.result(&text, &balance)?)
}

pub(super) async fn journal(
    api: &Api,
    screen: &Screen,
    args: &JournalFilter,
) -> Result<(), JobError> {
    let mut query = Vec::new();
    query.extend(
        args.month
            .map(|month| ("month".to_owned(), month.to_string())),
    );
    query.extend(args.kind.clone().map(|kind| ("kind".to_owned(), kind)));
    let mut table = Table::new(&["AT", "KIND", "AVAILABLE", "HELD", "JOB"]);
    let mut is_first = true;
    let mut show = |page: &Value| {
        let postings = page["postings"].as_array().map_or(&[][..], Vec::as_slice);
        if screen.is_json() {
            for posting in postings {
                screen.result("", posting)?;
            }
            return Ok(postings.len());
        }
        if std::mem::replace(&mut is_first, false) && page["period"].is_object() {
            say_period(screen, &page["period"])?;
        }
        let rows: Vec<_> = postings.iter().map(row).collect();
        Screen::lines(&table.lines(&rows))?;
        Ok(postings.len())
    };
    pages(api, "v1/journal", query, PAGE, args.limit, &mut show).await
}

fn say_period(screen: &Screen, period: &Value) -> Result<(), JobError> {
    for side in ["opening", "closing"] {
        let amount = |name: &str| show(period[side][name].as_i64().unwrap_or(0));
        let (available, held) = (amount("available_micros"), amount("held_micros"));
        screen.say(&format!("{side}: {available} available, {held} held"))?;
    }
    Ok(())
}

fn row(posting: &Value) -> Vec<String> {
    let word = |name: &str| posting[name].as_str().unwrap_or_default().to_owned();
    let change = |name: &str| match posting[name].as_i64().unwrap_or(0) {
        0 => String::new(),
        gained @ 1.. => format!("+{}", show(gained)),
        lost => show(lost),
    };
    vec![
        seconds(&word("at")),
        word("kind"),
        change("available_change_micros"),
        change("held_change_micros"),
        word("job_id"),
    ]
}
