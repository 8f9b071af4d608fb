//! `fencepost`: see [`fencepost_gateway::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    fencepost_gateway::cli::run()
}
