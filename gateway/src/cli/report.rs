//! What a command has to say, for a person or for a program.

use std::io::{self, Write as _};

use serde_json::Value;

/// One answer in both forms.
#[derive(Debug, Clone)]
pub struct Report {
    text: String,
    json: Value,
}

impl Report {
    /// An answer.
    pub fn new(text: impl Into<String>, json: Value) -> Self {
        Self {
            text: text.into(),
            json,
        }
    }

    /// Writes it to stdout.
    pub(super) fn print(&self, as_json: bool) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if as_json {
            writeln!(stdout, "{}", self.json)?;
        } else {
            writeln!(stdout, "{}", self.text)?;
        }
        stdout.flush()
    }
}
