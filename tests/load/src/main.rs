//! `fencepost-load`: how much a machine carries, and what one life of a job costs it.
//!
//! Everything is real: gateways are processes of their own, devices speak the protocol over
//! WebSockets, buyers speak HTTP, Postgres is a server with fsync on. Only the work itself is left
//! out (`noop.v1`), because it is not ours to measure.
//!
//! The modules, in the order of a run: [`cli`], [`open_files`], [`database`], [`ceiling`],
//! [`gateways`], [`people`] (who takes part), [`device`], [`buyer`], [`lifecycle`], [`sessions`]
//! and [`pages`] (the scenarios), [`observe`] and [`processes`] (what was used), [`figures`] and [`report`]
//! (what is said).

mod buyer;
mod ceiling;
mod cli;
mod database;
mod device;
mod error;
mod figures;
mod gateways;
mod lifecycle;
mod observe;
mod open_files;
mod pages;
mod people;
mod processes;
mod report;
mod sessions;
mod sockets;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Scenario};
use error::LoadError;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match execute(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is gone there is nobody left to tell.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("fencepost-load: {error}\n"),
            );
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: &Cli) -> Result<(), LoadError> {
    // Only a second call fails, and then there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // The load shares the machine with what it measures: half of the cores at most.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).max(1))
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(run(cli)))
}

async fn run(cli: &Cli) -> Result<(), LoadError> {
    open_files::reserve(cli.scenario.sockets())?;
    let database = tokio::select! {
        database = database::Database::start(cli) => database?,
        () = told_to_stop() => return Err(LoadError::Stopped),
    };
    // Dropping the scenario ends its gateways; the database is cleared away whatever happened.
    let outcome = tokio::select! {
        outcome = scenario(cli, &database) => outcome,
        () = told_to_stop() => Err(LoadError::Stopped),
    };
    database.clear_away().await?;
    outcome?.print(cli.json)
}

async fn scenario(cli: &Cli, database: &database::Database) -> Result<report::Report, LoadError> {
    match &cli.scenario {
        Scenario::Lifecycle(args) => lifecycle::run(cli, args, database).await,
        Scenario::Sessions(args) => sessions::run(cli, args, database).await,
        Scenario::Pages(args) => pages::run(cli, args, database).await,
    }
}

/// Ctrl-C or TERM.
async fn told_to_stop() {
    let term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    match term {
        Ok(mut term) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}
