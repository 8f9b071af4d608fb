//! `fencepost job …`: a buyer's terminal.
//!
//! Speaks to a gateway as any program of a buyer does: HTTP and an API key, nothing else. What it
//! has to say goes to stdout, what it is doing to stderr, and a bar only to a terminal.

mod api;
mod asking;
mod cancel;
mod connection;
mod download;
mod error;
mod file;
mod follow;
mod frames;
mod parsing;
mod screen;
mod show;
mod signals;
mod submit;
mod upload;
mod view;
mod watch;

use clap::{Args, Subcommand};

pub use error::JobError;

use connection::Connection;
use screen::Screen;

/// The exit codes, for `--help` and the buyers' page.
const EXIT_CODES: &str = "\
Exit codes:
  0    the job succeeded, or what was asked for was done
  1    something on this machine: a full disk, a download that is not what was promised
  2    refused: wrong usage, no such job or file, not enough credit, a file that exists already
  3    the job failed
  4    the job was cancelled
  5    the gateway could not be reached, or was in trouble, for longer than --patience
  130  interrupted; the job goes on

The API key is read from FENCEPOST_KEY or from --key-file, never from an argument.";

const EXAMPLES: &str = "\
Examples:
  export FENCEPOST_KEY=fp_live_…
  fencepost job submit --service transcode.v1 --param codec=h264 --param height=720 \\
      --input source=film.mp4 --wait --output small.mp4
  fencepost job watch 019adf00-0000-7000-8000-000000000001
  fencepost job download 019adf00-0000-7000-8000-000000000001 --output small.mp4
  fencepost job list --status failed --json | jq -r .id";

/// A buyer's jobs, over HTTP.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), after_help = EXAMPLES)]
pub(super) struct JobArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: JobCommand,
}

#[derive(Debug, Subcommand)]
enum JobCommand {
    /// Send the inputs and order the work.
    Submit(submit::SubmitArgs),
    /// Send one file; prints the id with which jobs can name it.
    Upload(upload::UploadArgs),
    /// Follow a job to its end: every phase and percent, through cut connections.
    Watch(watch::WatchArgs),
    /// The newest jobs.
    List(show::ListArgs),
    /// One job, as it is.
    Get(show::GetArgs),
    /// Cancel a job. Doing it again does no harm.
    Cancel(cancel::CancelArgs),
    /// Fetch the output of a job that succeeded, and check it.
    Download(download::DownloadArgs),
}

/// Runs a buyer's command.
pub(super) async fn run(args: &JobArgs, json: bool) -> Result<(), JobError> {
    let api = args.connection.open()?;
    let screen = Screen::new(json);
    match &args.command {
        JobCommand::Submit(args) => submit::run(&api, &screen, args).await,
        JobCommand::Upload(args) => upload::run(&api, &screen, args).await,
        JobCommand::Watch(args) => watch::run(&api, &screen, args).await,
        JobCommand::List(args) => show::list(&api, &screen, args).await,
        JobCommand::Get(args) => show::get(&api, &screen, args).await,
        JobCommand::Cancel(args) => cancel::run(&api, &screen, args).await,
        JobCommand::Download(args) => download::run(&api, &screen, args).await,
    }
}
