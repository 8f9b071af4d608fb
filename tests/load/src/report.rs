//! A table for people, one JSON object for machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::Value;

use crate::error::LoadError;
use crate::figures::per;
use crate::observe::Calls;

/// What a run has to say.
pub(crate) struct Report {
    text: String,
    json: Value,
}

impl Report {
    /// A report with a title and the figures for machines.
    pub(crate) fn new(title: &str, json: Value) -> Self {
        Self {
            text: format!("{title}\n"),
            json,
        }
    }

    /// A line of the table.
    pub(crate) fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "  {name:<34} {value}");
    }

    /// What was done how often, in all and for each `unit`, of which there were so many.
    pub(crate) fn transactions(
        &mut self,
        counts: &BTreeMap<String, u64>,
        (unit, units): (&str, u64),
    ) {
        let _ = writeln!(
            self.text,
            "\n  {:<34} {:>9} {:>10}",
            "transaction", unit, "in all"
        );
        for (name, count) in sorted(counts, |count| *count) {
            let each = per(*count, units);
            let _ = writeln!(self.text, "  {name:<34} {each:>9.3} {count:>10}");
        }
    }

    /// The same for statements, with their time inside Postgres.
    pub(crate) fn statements(
        &mut self,
        calls: &BTreeMap<String, Calls>,
        (unit, units): (&str, u64),
    ) {
        let _ = writeln!(
            self.text,
            "\n  {:<34} {:>9} {:>10} {:>12}",
            "statement", unit, "in all", "ms / 1,000"
        );
        for (name, one) in sorted(calls, |one| one.calls) {
            let each = per(one.calls, units);
            let time = one.milliseconds * per(1_000, units);
            let calls = one.calls;
            let _ = writeln!(
                self.text,
                "  {name:<34} {each:>9.3} {calls:>10} {time:>12.1}"
            );
        }
    }

    /// Prints it; the JSON object is the last line.
    pub(crate) fn print(&self, json: bool) -> Result<(), LoadError> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", self.text)?;
        if json {
            writeln!(out, "{}", self.json)?;
        }
        Ok(())
    }
}

/// A figure, or that there is none.
pub(crate) fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "not measured".to_owned(), |value| value.to_string())
}

/// Most first.
fn sorted<T>(all: &BTreeMap<String, T>, count: impl Fn(&T) -> u64) -> Vec<(&String, &T)> {
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|(_, value)| std::cmp::Reverse(count(value)));
    sorted
}
