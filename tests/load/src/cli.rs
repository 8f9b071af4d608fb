//! What can be asked for.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measures how much this machine carries: real gateways, real sockets, real Postgres, no work.
#[derive(Debug, Parser)]
#[command(name = "fencepost-load", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// A Postgres to measure on, instead of one that is started for this run. Two databases are
    /// made on it and dropped again. With a password in the URL, use the variable.
    #[arg(
        long,
        global = true,
        env = "FENCEPOST_LOAD_DATABASE",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database: Option<String>,
    /// End with one JSON object in the last line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The gateway's program; without it, `fencepost` beside this one.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) gateway_binary: Option<PathBuf>,
    /// A configuration key for all gateways, such as --set database.max_connections=32.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(subcommand)]
    pub(crate) scenario: Scenario,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Whole lives of jobs, from the buyer's POST to the settled commit.
    Lifecycle(LifecycleArgs),
    /// Sessions that only wait.
    Sessions(SessionsArgs),
    /// Pages of an org's jobs, among few jobs and among very many.
    Pages(PagesArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LifecycleArgs {
    /// Jobs to measure.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) jobs: u64,
    /// Devices.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) devices: u32,
    /// Gateways, each a process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) gateways: u32,
    /// Slots of each device.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) slots: u32,
    /// Orgs that the jobs are spread over.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) orgs: u32,
    /// Jobs that are under way at once; without it, all slots of all devices. 1 measures the cost
    /// of a life that shares nothing with another one.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) in_flight: Option<u32>,
    /// Jobs before the measured ones; without it, a fifth as many, 200 to 2,000.
    #[arg(long)]
    pub(crate) warm_up: Option<u64>,
    /// Seconds of the ceiling, before and again after; 0 leaves it out.
    #[arg(long, default_value_t = 10)]
    pub(crate) ceiling_seconds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Devices that connect to one gateway.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) devices: u32,
    /// Seconds of idling to measure.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PagesArgs {
    /// Jobs that there are in the end. Five million take about 6 GB of disk and ten minutes.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    pub(crate) jobs: u64,
    /// Jobs among which pages are asked for first.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    pub(crate) few: u64,
    /// How often each page is asked for.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
}

impl LifecycleArgs {
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
            .unwrap_or(self.devices.saturating_mul(self.slots))
    }

    pub(crate) fn warm_up(&self) -> u64 {
        self.warm_up.unwrap_or((self.jobs / 5).clamp(200, 2_000))
    }
}

impl Scenario {
    /// How many sockets this process opens at most.
    pub(crate) fn sockets(&self) -> u64 {
        match self {
            // A device's socket, its uploads, and the buyers.
            Self::Lifecycle(args) => u64::from(args.devices) + u64::from(args.in_flight()) + 64,
            Self::Sessions(args) => u64::from(args.devices),
            Self::Pages(_) => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
