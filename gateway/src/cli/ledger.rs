//! `fencepost ledger …`

use clap::Subcommand;
use fencepost_store::views::LedgerCheck;
use serde_json::{Value, json};

use super::report::Report;
use super::{CliError, Global};

/// All movements of money.
#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Look whether everything adds up: accounts, holds, captures, and what protects them.
    ///
    /// Reads one snapshot and locks nothing, so it may run beside everything else, every hour. Exit
    /// code 0 if all is well, 1 if not; the report names the first ten that break each rule.
    Check,
}

pub(super) async fn run(global: &Global, command: &LedgerCommand) -> Result<(), CliError> {
    let LedgerCommand::Check = command;
    let check = global.store().await?.check_ledger().await?;
    global.show(&report(&check))?;
    if check.findings.is_empty() {
        Ok(())
    } else {
        let broken = check.findings.len();
        Err(CliError::Refused(format!(
            "the ledger breaks {broken} of its rules"
        )))
    }
}

fn report(check: &LedgerCheck) -> Report {
    let seen = format!(
        "{} postings, {} jobs and {} accounts of orgs",
        check.postings, check.jobs, check.orgs
    );
    let text = if check.findings.is_empty() {
        format!("Everything adds up: {seen}.")
    } else {
        let broken = check.findings.iter();
        let broken: Vec<_> = broken
            .map(|one| format!("broken: {}\n  {}", one.rule, one.ids.join("\n  ")))
            .collect();
        format!("{}\nLooked at {seen}.", broken.join("\n"))
    };
    let findings: Vec<Value> = check
        .findings
        .iter()
        .map(|one| json!({ "rule": one.rule, "ids": one.ids }))
        .collect();
    let json = json!({
        "is_clean": findings.is_empty(),
        "postings": check.postings,
        "jobs": check.jobs,
        "orgs": check.orgs,
        "findings": findings,
    });
    Report::new(text, json)
}
