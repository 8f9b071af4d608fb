//! Where the log goes: stderr, so that stdout stays for answers.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For a person.
    Text,
    /// For a program, one object per line.
    Json,
}

/// Starts logging. `RUST_LOG` chooses what; `info` of our own crates if it is not set.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,fencepost_agent=info,fencepost_media=info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // Only a second call fails, and then the first one's choice stands.
    drop(started);
}
