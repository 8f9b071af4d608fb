//! `fencepost`: what can be said on the command line, and who does it.
//!
//! Every command takes the same configuration. What a command has to say goes to stdout, readable
//! or as one JSON object (`--json`); logs and errors go to stderr. Secrets are never arguments.

mod amount;
mod attempt;
mod audit;
mod clock;
mod credit;
mod dev;
mod device;
mod endpoint;
mod error;
mod ids;
mod job;
mod key;
mod ledger;
mod org;
mod provider;
mod report;
mod serve;
mod table;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub use error::CliError;
pub use job::JobError;
pub use report::Report;
pub(crate) use table::table;

use crate::app::open_store;
use crate::config::{Config, Origins, load};
use crate::demo::{self, DemoArgs};
use fencepost_store::Store;

/// Who needs which commands.
const WHO: &str = "\
Buyers (over HTTP, with an API key): job, balance, journal, webhook; and bundle, which needs neither.
Operators (on the database): serve, migrate, config, org, key, provider, credit, ledger, device,
attempt, endpoint, clock, audit. To try it: dev, demo.";

/// Nobody reads any more what we write, as after `| head`: what a shell says of whom that ended.
const BROKEN_PIPE: u8 = 141;

/// The control plane for media work on other people's Macs.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, max_term_width = 100, after_help = WHO)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Configuration file; fencepost.toml in this folder is read if there is one.
    #[arg(long, global = true, env = "FENCEPOST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// One configuration key, such as --set http.bind=127.0.0.1:9000. May be repeated.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Answer with one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

impl Global {
    /// The configuration, put together and checked.
    pub fn load(&self) -> Result<Config, CliError> {
        let origins = Origins::from_process(self.config.clone(), self.set.clone());
        Ok(load(&origins)?)
    }

    /// The configured database, with the schema that this build needs.
    async fn store(&self) -> Result<Store, CliError> {
        let store = open_store(&self.load()?)?.acting_for(clock::this_person());
        store.check_schema().await?;
        Ok(store)
    }

    /// Shows what a command has to say.
    pub fn show(&self, report: &Report) -> Result<(), CliError> {
        Ok(report.print(self.json)?)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a gateway.
    Serve,
    /// Bring the database's schema to this version.
    Migrate,
    /// Run everything on this machine, with a Postgres of its own, and set up an org to try it.
    Dev(dev::DevArgs),
    /// Show and check what Fencepost promises: two Macs, one of them frozen in the middle of its work.
    ///
    /// Brings its own Postgres, gateway and configuration, and leaves nothing behind.
    Demo(DemoArgs),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the description of the API (OpenAPI 3.1), as a gateway serves it.
    Openapi,
    /// A buyer's jobs: quote, submit, watch, list, get, cancel, download, and the services there are.
    Job(Box<job::JobArgs>),
    /// Inputs of many files: the manifest by which they are ordered.
    Bundle(job::BundleArgs),
    /// A buyer's money: what is available, and what is held for jobs.
    Balance(job::BalanceArgs),
    /// Every movement of a buyer's money, the latest first.
    Journal(job::JournalArgs),
    /// Where a buyer is told of what becomes of jobs.
    Webhook(job::WebhookArgs),
    /// Buyers' accounts.
    #[command(subcommand)]
    Org(org::OrgCommand),
    /// Buyers' API keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Accounts that own devices and earn.
    #[command(subcommand)]
    Provider(provider::ProviderCommand),
    /// Buyers' money.
    #[command(subcommand)]
    Credit(credit::CreditCommand),
    /// All movements of money.
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Macs.
    #[command(subcommand)]
    Device(device::DeviceCommand),
    /// Runs of jobs on devices.
    #[command(subcommand)]
    Attempt(attempt::AttemptCommand),
    /// Where buyers' events are sent.
    #[command(subcommand)]
    Endpoint(endpoint::EndpointCommand),
    /// The clock that decides about leases.
    #[command(subcommand)]
    Clock(clock::ClockCommand),
    /// What operators did.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check the configuration and show it, without its secrets.
    Check,
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    let system = actix_web::rt::System::new();
    let outcome = system.block_on(dispatch(&cli));
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    if error.is_broken_pipe() {
        return ExitCode::from(BROKEN_PIPE);
    }
    // Nothing is left to be told if not even stderr can be written.
    let _ = error.print(cli.global.json);
    if matches!(error, CliError::Job(JobError::Interrupted(_))) {
        // Now, and not when a large file that is being read has been read to its end.
        std::process::exit(i32::from(JobError::INTERRUPTED));
    }
    error.exit_code()
}

/// Words that are no command; also the help, which is asked for in the same way.
fn misread(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|word| word == "--json");
    if wants_json && error.use_stderr() {
        let text = error.to_string();
        let message = text.trim().trim_start_matches("error: ");
        let refused = JobError::Usage(message.to_owned());
        let _ = CliError::Job(refused).print(true);
    } else {
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

async fn dispatch(cli: &Cli) -> Result<(), CliError> {
    let global = &cli.global;
    match &cli.command {
        Command::Serve => serve::serve(global).await,
        Command::Migrate => migrate(global).await,
        Command::Dev(args) => dev::dev(global, args).await,
        Command::Demo(args) => Ok(demo::run(args).await?),
        Command::Config(ConfigCommand::Check) => check_config(global),
        Command::Openapi => {
            let document = crate::http::openapi::document();
            global.show(&Report::new(format!("{document:#}"), document))
        }
        Command::Job(args) => Ok(job::run(args, global.json).await?),
        Command::Bundle(args) => Ok(job::bundle(args, global.json).await?),
        Command::Balance(args) => Ok(job::balance(args, global.json).await?),
        Command::Journal(args) => Ok(job::journal(args, global.json).await?),
        Command::Webhook(args) => Ok(job::webhook(args, global.json).await?),
        Command::Org(command) => global.show(&org::run(&global.store().await?, command).await?),
        Command::Key(command) => global.show(&key::run(&global.store().await?, command).await?),
        Command::Provider(command) => {
            global.show(&provider::run(&global.store().await?, command).await?)
        }
        Command::Credit(command) => {
            global.show(&credit::run(&global.store().await?, command).await?)
        }
        Command::Attempt(command) => {
            global.show(&attempt::run(&global.store().await?, command).await?)
        }
        Command::Device(command) => {
            global.show(&device::run(&global.store().await?, command).await?)
        }
        Command::Ledger(command) => ledger::run(global, command).await,
        Command::Audit(command) => global.show(&audit::run(&global.store().await?, command).await?),
        Command::Endpoint(command) => {
            global.show(&endpoint::run(&global.store().await?, command).await?)
        }
        Command::Clock(command) => global.show(&clock::run(&global.store().await?, command).await?),
    }
}

async fn migrate(global: &Global) -> Result<(), CliError> {
    let store = open_store(&global.load()?)?;
    store.migrate().await?;
    store.check_schema().await?;
    global.show(&Report::new(
        "The database's schema is up to date.",
        serde_json::json!({}),
    ))
}

fn check_config(global: &Global) -> Result<(), CliError> {
    let config = global.load()?;
    let text = toml::to_string_pretty(&config).map_err(|error| {
        CliError::Refused(format!("the configuration cannot be shown: {error}"))
    })?;
    let json = serde_json::to_value(&config).map_err(|error| {
        CliError::Refused(format!("the configuration cannot be shown: {error}"))
    })?;
    global.show(&Report::new(
        format!("{text}\nThe configuration is valid."),
        json,
    ))
}

/// An instant as people and programs read it.
fn written(at: time::OffsetDateTime) -> Result<String, CliError> {
    at.format(&time::format_description::well_known::Rfc3339)
        .map_err(|error| CliError::Refused(format!("the time cannot be shown: {error}")))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("write KEY=VALUE, such as http.workers=4")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_flag_for_one_key_is_split_at_the_first_equals_sign() {
        assert_eq!(
            key_value("a.b = c=d"),
            Ok(("a.b".to_owned(), "c=d".to_owned()))
        );
        assert!(key_value("a.b").is_err());
    }
}
