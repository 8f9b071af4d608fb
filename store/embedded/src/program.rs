//! Runs one of Postgres's short-lived programs, bounded in time, and explains how it failed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use crate::error::EmbeddedError;
use crate::files;

/// initdb syncs some thousand files; slow disks need minutes.
const LONGEST_RUN: Duration = Duration::from_mins(5);

/// Runs `command` with `input` on its standard input and returns what it printed. Dropping the
/// future kills the program.
pub(crate) async fn run(
    program: &Path,
    mut command: Command,
    input: &str,
) -> Result<String, EmbeddedError> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .map_err(EmbeddedError::io("run", program))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that reads none of it closes early; its exit status tells what matters.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let name = || {
        program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let Ok(output) = tokio::time::timeout(LONGEST_RUN, child.wait_with_output()).await else {
        let status = format!("not done after {} s", LONGEST_RUN.as_secs());
        return Err(EmbeddedError::Program {
            program: name(),
            status,
            output: String::new(),
        });
    };
    let output = output.map_err(EmbeddedError::io("run", program))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let all = printed + &String::from_utf8_lossy(&output.stderr);
    Err(EmbeddedError::Program {
        program: name(),
        status: output.status.to_string(),
        output: files::last_lines(&all, 15),
    })
}
