//! `fencepost job …`, `bundle`, `balance`, `journal` and `webhook`: a buyer's terminal.
//!
//! Speaks to a gateway (`bundle` to nobody) as any program of a buyer does: HTTP and an API key, nothing else. What it
//! has to say goes to stdout, what it is doing to stderr, and a bar only to a terminal.

mod address;
mod api;
mod asking;
mod bundle;
mod cancel;
mod connection;
mod delete;
mod download;
mod error;
mod file;
mod follow;
mod frames;
mod list;
mod money;
mod order;
mod paging;
mod parameters;
mod parsing;
mod quote;
mod screen;
mod services;
mod show;
mod signals;
mod submit;
mod upload;
mod view;
mod watch;
mod webhook;

use std::future::Future;

use clap::{Args, Subcommand};

pub(super) use bundle::BundleArgs;
pub use error::JobError;

use api::Api;
use connection::Connection;
use screen::Screen;
use signals::Interrupts;

/// What shows ids of jobs.
const SHOWN_BY: &str = "fencepost job list";

/// The exit codes, for `--help` and the buyers' page.
const EXIT_CODES: &str = "\
Exit codes:
  0    the job succeeded, or what was asked for was done
  1    something on this machine: a full disk, a download that is not what was promised
  2    refused: wrong usage, no such job or file, not enough credit, a file that exists already
  3    the job failed
  4    the job was cancelled
  5    the gateway could not be reached, or was in trouble, for longer than --patience
  130  interrupted; what then stands, and how to go on, is said
  141  nobody reads the output any more, as after `| head`

The API key is read from FENCEPOST_KEY or from --key-file, never from an argument.
Colours are for terminals alone, and not if NO_COLOR is set.";

const EXAMPLES: &str = "\
Examples:
  export FENCEPOST_KEY=fp_live_…
  fencepost job services
  fencepost job quote --service transcode.v1 --param codec=h264
  fencepost job submit --service transcode.v1 --param codec=h264 --param height=720 \\
      --input source=film.mp4 --wait --output small.mp4
  fencepost job watch 019adf00-0000-7000-8000-000000000001
  fencepost job download 019adf00-0000-7000-8000-000000000001 --output small.mp4
  fencepost job list --status failed --json | jq -r .id

Your money is shown by `fencepost balance` and `fencepost journal`; `fencepost webhook` tells your own
server how jobs end.";

/// A buyer's jobs, over HTTP.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), after_help = EXAMPLES)]
pub(super) struct JobArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: JobCommand,
}

/// A buyer's money.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub(super) struct BalanceArgs {
    #[command(flatten)]
    connection: Connection,
}

/// Every movement of a buyer's money.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{}\n\n{EXIT_CODES}", money::JOURNAL_EXAMPLES),
    after_help = money::JOURNAL_EXAMPLES)]
pub(super) struct JournalArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    filter: money::JournalFilter,
}

/// Where a buyer is told of what becomes of jobs.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{}\n\n{EXIT_CODES}", webhook::EXAMPLES),
    after_help = webhook::EXAMPLES)]
pub(super) struct WebhookArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: webhook::WebhookCommand,
}

#[derive(Debug, Subcommand)]
enum JobCommand {
    /// What can be asked for: each service with its price, inputs and parameters.
    Services(services::ServicesArgs),
    /// What a job would cost, and whether it would wait. Sends no file and orders nothing.
    Quote(quote::QuoteArgs),
    /// Check everything, send the inputs and order the work.
    Submit(submit::SubmitArgs),
    /// Send one file; prints the id with which jobs can name it.
    Upload(upload::UploadArgs),
    /// Follow a job to its end: every phase and percent, through cut connections.
    Watch(watch::WatchArgs),
    /// The newest jobs, or all.
    List(list::ListArgs),
    /// One job: how it is, why it waits, what it cost, what it made.
    #[command(visible_alias = "show")]
    Get(show::GetArgs),
    /// Cancel a job. Doing it again does no harm.
    Cancel(cancel::CancelArgs),
    /// Fetch the output of a job that succeeded, and check it.
    Download(download::DownloadArgs),
    /// Delete a job that has ended: what it made, and all that was said in it. Its money stays.
    Delete(delete::DeleteArgs),
    /// Delete what a job made, before its time is over. The job and its money stay.
    DeleteOutput(delete::DeleteArgs),
    /// Delete a file that was sent.
    DeleteUpload(delete::UploadArgs),
}

/// Runs `fencepost job`.
pub(super) async fn run(args: &JobArgs, json: bool) -> Result<(), JobError> {
    let (api, screen) = (&args.connection.open()?, &Screen::new(json));
    let done = attended(screen, dispatch(api, screen, &args.command)).await;
    done.map_err(|error| screen.ended(error))
}

async fn dispatch(api: &Api, screen: &Screen, command: &JobCommand) -> Result<(), JobError> {
    match command {
        JobCommand::Services(args) => services::run(api, screen, args).await,
        JobCommand::Quote(args) => quote::run(api, screen, args).await,
        JobCommand::Submit(args) => submit::run(api, screen, args).await,
        JobCommand::Upload(args) => upload::run(api, screen, args).await,
        JobCommand::Watch(args) => watch::run(api, screen, args).await,
        JobCommand::List(args) => list::run(api, screen, args).await,
        JobCommand::Get(args) => show::run(api, screen, args).await,
        JobCommand::Cancel(args) => cancel::run(api, screen, args).await,
        JobCommand::Download(args) => download::run(api, screen, args).await,
        JobCommand::Delete(args) => delete::job(api, screen, args).await,
        JobCommand::DeleteOutput(args) => delete::output(api, screen, args).await,
        JobCommand::DeleteUpload(args) => delete::upload(api, screen, args).await,
    }
}

/// Runs `fencepost bundle`.
pub(super) async fn bundle(args: &BundleArgs, json: bool) -> Result<(), JobError> {
    let screen = &Screen::new(json);
    attended(screen, bundle::run(screen, args)).await
}

/// Runs `fencepost balance`.
pub(super) async fn balance(args: &BalanceArgs, json: bool) -> Result<(), JobError> {
    let (api, screen) = (&args.connection.open()?, &Screen::new(json));
    attended(screen, money::balance(api, screen)).await
}

/// Runs `fencepost journal`.
pub(super) async fn journal(args: &JournalArgs, json: bool) -> Result<(), JobError> {
    let (api, screen) = (&args.connection.open()?, &Screen::new(json));
    attended(screen, money::journal(api, screen, &args.filter)).await
}

/// Runs `fencepost webhook`.
pub(super) async fn webhook(args: &WebhookArgs, json: bool) -> Result<(), JobError> {
    let (api, screen) = (&args.connection.open()?, &Screen::new(json));
    attended(screen, webhook::run(api, screen, &args.command)).await
}

/// Does something until Ctrl-C comes; then what stands is said.
async fn attended(
    screen: &Screen,
    work: impl Future<Output = Result<(), JobError>>,
) -> Result<(), JobError> {
    let mut interrupts = Interrupts::listen()?;
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = interrupts.next() => {}
        }
        if !screen.sees_to_interrupts() {
            return Err(screen.interrupted());
        }
    }
}
