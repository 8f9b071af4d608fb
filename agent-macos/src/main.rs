//! `fencepost-agent`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use fencepost_agent::cli::Cli;
use tokio::runtime::Builder;

/// How long threads that still read or write files may hold up the end of the process.
const LAST_THREADS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ended = execute(cli);
    match ended {
        Ok(code) => code,
        Err(error) => {
            // If stderr is gone there is nobody left to tell.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("fencepost-agent: {error}\n"),
            );
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli) -> Result<ExitCode, Box<dyn std::error::Error + Send + Sync>> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| "a TLS provider is installed already")?;
    let workers = Builder::new_multi_thread()
        .thread_name("work")
        .enable_all()
        .build()?;
    // The session has this thread for itself: work that keeps all workers busy delays no renewal.
    let session = Builder::new_current_thread().enable_all().build()?;
    let ended = session.block_on(Box::pin(cli.execute(workers.handle().clone())));
    // Drops every task that is left, and with it every child.
    workers.shutdown_timeout(LAST_THREADS);
    session.shutdown_timeout(LAST_THREADS);
    ended
}
