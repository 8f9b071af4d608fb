//! What the buyer sees: results on stdout, doings on stderr, bars on terminals alone.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::JobError;

/// Where things are said.
pub(super) struct Screen {
    json: bool,
    has_bars: bool,
    /// What Ctrl-C, or giving up, would leave behind now.
    left: RefCell<String>,
    /// Whether the command sees to Ctrl-C itself.
    sees_to_interrupts: Cell<bool>,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            has_bars: !json && io::stderr().is_terminal(),
            left: RefCell::default(),
            sees_to_interrupts: Cell::new(false),
        }
    }

    /// From now on Ctrl-C leaves this behind, which is said if it comes.
    pub(super) fn leaves(&self, what: impl Into<String>) {
        *self.left.borrow_mut() = what.into();
    }

    /// The end by Ctrl-C, as things stand.
    pub(super) fn interrupted(&self) -> JobError {
        let left = self.left.borrow();
        JobError::Interrupted(match left.as_str() {
            "" => String::new(),
            left => format!("; {left}"),
        })
    }

    /// The end of a command: one that gave up leaves behind what Ctrl-C would have left.
    pub(super) fn ended(&self, error: JobError) -> JobError {
        let left = self.left.borrow();
        match error {
            JobError::Unreachable(why) if !left.is_empty() => {
                JobError::Unreachable(format!("{why}; {left}"))
            }
            other => other,
        }
    }

    /// Whether the command sees to Ctrl-C itself from now on.
    pub(super) fn set_sees_to_interrupts(&self, does: bool) {
        self.sees_to_interrupts.set(does);
    }

    /// Whether it does.
    pub(super) fn sees_to_interrupts(&self) -> bool {
        self.sees_to_interrupts.get()
    }

    /// Whether one JSON object per line is wanted.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person looks at a terminal.
    pub(super) fn has_bars(&self) -> bool {
        self.has_bars
    }

    /// What is being done; nothing for a program.
    pub(super) fn say(&self, line: &str) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(io::stderr().lock(), "{line}")
    }

    /// A result: a text for a person or an object for a program.
    pub(super) fn result(&self, text: &str, value: &Value) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if self.json {
            writeln!(stdout, "{value}")?;
        } else {
            writeln!(stdout, "{text}")?;
        }
        stdout.flush()
    }

    /// Lines for a person.
    pub(super) fn lines(lines: &[String]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        for line in lines {
            writeln!(stdout, "{line}")?;
        }
        stdout.flush()
    }

    /// A bar of bytes.
    pub(super) fn bytes_bar(&self, what: &str, total: u64) -> ProgressBar {
        let template = "{msg} [{bar:30}] {bytes:>10} of {total_bytes}, {bytes_per_sec}, {eta} left";
        self.bar(what, total, template)
    }

    /// A bar of percents.
    pub(super) fn percent_bar(&self) -> ProgressBar {
        self.bar("", 100, "{msg:22} [{bar:30}] {pos:>3} %")
    }

    fn bar(&self, what: &str, total: u64, template: &str) -> ProgressBar {
        let target = if self.has_bars {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        // The templates are ours and right; a bar without one would do as well.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        bar
    }
}
