//! Why a command did not do what was asked.

use std::io::{self, Write as _};
use std::process::ExitCode;

use console::style;
use fencepost_store::StoreError;
use serde_json::json;

use super::JobError;
use crate::app::AppError;
use crate::config::ConfigError;
use crate::demo::DemoError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The gateway cannot run.
    #[error(transparent)]
    App(AppError),
    /// The database said no, or is away.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Our own Postgres does not start.
    #[error(transparent)]
    Postgres(#[from] fencepost_embedded::EmbeddedError),
    /// The demo did not end well.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// A buyer's command did not end well.
    #[error(transparent)]
    Job(#[from] JobError),
    /// What was asked for cannot be done.
    #[error("{0}")]
    Refused(String),
    /// A file or stdout cannot be used.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<AppError> for CliError {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Config(error) => Self::Config(error),
            AppError::Store(error) => Self::Store(error),
            other @ (AppError::Artifacts(_)
            | AppError::Client(_)
            | AppError::Listen { .. }
            | AppError::Stranger(_)
            | AppError::Ended(_)) => Self::App(other),
        }
    }
}

impl CliError {
    /// There is no such thing; where those are shown that there are.
    pub(super) fn unknown(what: &str, name: impl std::fmt::Display) -> Self {
        let shown_by = match what.split(' ').next_back() {
            Some("org") => "; `fencepost org list` shows them all",
            Some("provider") => "; `fencepost provider list` shows them all",
            Some("device") => "; `fencepost device list` shows them all",
            Some("endpoint") => "; `fencepost endpoint list` shows them all",
            Some("key") => "; `fencepost key list` shows them all",
            _ => "",
        };
        Self::Refused(format!("there is no {what} {name}{shown_by}"))
    }

    /// Whether nobody reads any more what we have to say, as after `| head`.
    pub(super) fn is_broken_pipe(&self) -> bool {
        let (Self::Io(cause) | Self::Job(JobError::Io(cause))) = self else {
            return false;
        };
        cause.kind() == io::ErrorKind::BrokenPipe
    }

    /// 2 for a wrong configuration, 78 for one that is wrong beside the gateways that run, 130 for an
    /// interruption, 1 for anything else.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) => ExitCode::from(2),
            Self::App(AppError::Stranger(_)) => ExitCode::from(78),
            Self::Job(error) => ExitCode::from(error.code()),
            // What a shell says of whom a signal ended.
            Self::Demo(DemoError::Interrupted) => ExitCode::from(130),
            Self::App(_)
            | Self::Store(_)
            | Self::Postgres(_)
            | Self::Demo(_)
            | Self::Refused(_)
            | Self::Io(_) => ExitCode::FAILURE,
        }
    }

    /// Says it on stderr.
    pub(super) fn print(&self, as_json: bool) -> io::Result<()> {
        let mut stderr = io::stderr().lock();
        if as_json {
            let error = match self {
                Self::Job(error) => error.json(),
                other => json!(other.to_string()),
            };
            writeln!(stderr, "{}", json!({ "error": error }))
        } else {
            writeln!(
                stderr,
                "{} {self}",
                style("error:").for_stderr().red().bold()
            )
        }
    }
}

/// Turns "this name is taken", which only the database knows, into a sentence.
pub(super) fn name_taken(error: StoreError, what: &str, name: &str) -> CliError {
    match &error {
        StoreError::Database(cause) if matches!(cause.as_database_error(), Some(cause) if cause.is_unique_violation()) => {
            CliError::Refused(format!("the name {name:?} is taken by another {what}"))
        }
        _ => CliError::Store(error),
    }
}
