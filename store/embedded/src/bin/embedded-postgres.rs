//! Runs the Postgres of a folder until its standard input ends or it is interrupted, and prints
//! where it is: for `cargo check` against a live schema, and for a look into the data.
//!
//! `embedded-postgres DIR [--orphan]`; with `--orphan` the server survives a `kill -9` of this
//! program, until the next start on the folder.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use fencepost_embedded::{EmbeddedPostgres, StartOptions};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(hold());
    // A read of the terminal cannot be cancelled; nobody waits for it.
    runtime.shutdown_background();
    Ok(result.map_or_else(
        |error| {
            eprintln!("embedded-postgres: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

async fn hold() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = arguments
        .next()
        .ok_or("usage: embedded-postgres DIR [--orphan]")?;
    let mut options = StartOptions::new(dir);
    options.stop_with_parent = arguments
        .next()
        .is_none_or(|argument| argument != "--orphan");
    let postgres = EmbeddedPostgres::start(options)
        .await
        .map_err(|error| error.to_string())?;
    print_addresses(&postgres)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut input = tokio::io::stdin();
    let mut buffer = [0; 64];
    let end_of_input = async { while matches!(input.read(&mut buffer).await, Ok(1..)) {} };
    tokio::select! {
        () = end_of_input => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    postgres.stop().await?;
    Ok(())
}

fn print_addresses(postgres: &EmbeddedPostgres) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "pid={}", postgres.pid())?;
    writeln!(out, "port={}", postgres.port())?;
    writeln!(out, "socket_dir={}", postgres.socket_dir().display())?;
    writeln!(out, "home={}", postgres.home().display())?;
    writeln!(out, "url={}", postgres.url().expose())?;
    out.flush()
}
