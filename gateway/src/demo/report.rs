//! What the demo says: plain words on stdout, colour only on a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use fencepost_media::Probe;

use super::buyer::{Attempt, Money};

/// Speaks to the person who watches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Narrator {
    colour: bool,
}

impl Narrator {
    pub(super) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            colour: wanted && io::stdout().is_terminal(),
        }
    }

    /// A heading.
    pub(super) fn title(self, text: &str) {
        self.line(&format!("\n{}", self.styled("1;36", text)));
    }

    /// An explanation.
    pub(super) fn tell(self, text: &str) {
        self.line(text);
    }

    /// Something that was done.
    pub(super) fn step(self, text: &str) {
        self.line(&format!("  {} {text}", self.styled("2", "·")));
    }

    /// Something that was checked and is so.
    pub(super) fn checked(self, text: &str) {
        self.line(&format!("  {} {text}", self.styled("32", "✓")));
    }

    /// Everything that is red is meant to be: a refusal that we wanted.
    pub(super) fn refused(self, text: &str) {
        self.line(&format!("  {} {text}", self.styled("31", "✗")));
    }

    /// Lines that belong together, such as a table.
    pub(super) fn block(self, text: &str) {
        for line in text.lines() {
            self.line(&format!("    {line}"));
        }
    }

    fn styled(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Whoever closed our stdout does not want to know; the demo's outcome is its exit status.
    #[expect(clippy::unused_self, reason = "one way of speaking")]
    fn line(self, text: &str) {
        let _ = writeln!(io::stdout(), "{text}");
    }
}

/// The money of a job in words.
pub(super) fn money(money: &Money) -> String {
    format!(
        "held {}, captured {}, released {}",
        units(money.held),
        units(money.captured),
        units(money.released)
    )
}

/// Micros as currency units.
fn units(micros: i64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// What a media file is, in one line.
pub(super) fn media(probe: &Probe, bytes: u64) -> String {
    let picture = probe.main_video().map_or_else(
        || "no picture".to_owned(),
        |video| {
            let size = video.displayed;
            format!("{} {}x{}", video.codec, size.width, size.height)
        },
    );
    let sound = probe
        .main_audio()
        .map_or_else(String::new, |audio| format!(" + {}", audio.codec));
    let seconds = probe.duration_seconds.unwrap_or(0.0);
    format!(
        "{picture}{sound}, {seconds:.2} s, {} kB",
        bytes.div_ceil(1000)
    )
}

/// One row for each attempt, with what became of it in words.
pub(super) fn attempts(attempts: &[Attempt]) -> String {
    let rows: Vec<Vec<String>> = attempts
        .iter()
        .map(|attempt| {
            let why = attempt.failure.as_ref();
            let why = why.and_then(|failure| failure["code"].as_str());
            let outcome = why.map_or_else(
                || attempt.status.clone(),
                |why| format!("{} ({why})", attempt.status),
            );
            vec![
                attempt.number.to_string(),
                attempt.device.name.clone(),
                attempt.lease_epoch.to_string(),
                outcome,
            ]
        })
        .collect();
    crate::cli::table(&["ATTEMPT", "DEVICE", "EPOCH", "OUTCOME"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_to_the_last_micro_that_is_not_nothing() {
        for (micros, shown) in [
            (0, "0"),
            (30_000, "0.03"),
            (210_000, "0.21"),
            (5_000_001, "5.000001"),
        ] {
            assert_eq!(units(micros), shown);
        }
    }
}
