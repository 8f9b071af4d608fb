//! `fencepost clock …`

use clap::Subcommand;
use fencepost_domain::clock::ClockReading;
use fencepost_store::Store;
use fencepost_store::admin::Actor;
use serde_json::json;

use super::error::CliError;
use super::report::Report;
use super::written;

/// The clock that decides about leases.
#[derive(Debug, Subcommand)]
pub(super) enum ClockCommand {
    /// Show the database's clock, its mark, and how far they are apart.
    Show,
    /// Take the clock as it is for right.
    ///
    /// Ends all live leases, charged to nobody, and sets the mark to what the clock shows now. For a
    /// mark that is wrong, or a clock that was put right by a leap; is written into the audit log.
    Accept,
}

pub(super) async fn run(store: &Store, command: &ClockCommand) -> Result<Report, CliError> {
    match command {
        ClockCommand::Show => show(store.read_clock().await?),
        ClockCommand::Accept => accept(store).await,
    }
}

fn show(reading: ClockReading) -> Result<Report, CliError> {
    let behind = reading.regressed_by();
    let difference = reading.now - reading.mark;
    let state = match behind {
        None => "ahead of its mark, as it should be",
        Some(_) => {
            "behind its mark: nothing that compares an expiry is decided until it catches up"
        }
    };
    let (now, mark) = (written(reading.now)?, written(reading.mark)?);
    let apart = difference.abs().as_seconds_f64();
    let text = format!("clock  {now}\nmark   {mark}\nThe clock is {apart:.6} s {state}.");
    let json = json!({
        "clock": now,
        "mark": mark,
        "difference_us": i64::try_from(difference.whole_microseconds()).unwrap_or(i64::MAX),
        "behind": behind.is_some(),
    });
    Ok(Report::new(text, json))
}

async fn accept(store: &Store) -> Result<Report, CliError> {
    let accepted = store.accept_clock(&this_person()).await?;
    let (mark, before) = (written(accepted.mark)?, written(accepted.mark_before)?);
    let ended = accepted.leases_ended;
    let text = format!("The mark is {mark}; it was {before}. {ended} live leases were ended.");
    let json = json!({ "mark": mark, "mark_before": before, "leases_ended": ended });
    Ok(Report::new(text, json))
}

/// Whoever sits at the command line, as far as the system says.
pub(super) fn this_person() -> Actor {
    let name = ["USER", "LOGNAME", "USERNAME"]
        .into_iter()
        .find_map(|variable| std::env::var(variable).ok())
        .unwrap_or_else(|| "unknown".to_owned());
    Actor::new(&format!("cli:{name}"))
}
