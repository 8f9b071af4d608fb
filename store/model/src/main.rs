//! Explores the model in its full bounds and says what it found: `make model`.
//!
//! `fencepost-model [NAME]` explores one scope or all; it ends with 1 if a promise is broken or a
//! milestone is not reached.

use std::process::ExitCode;

use fencepost_model::{Finding, explore, scopes};

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut is_good = true;
    for (name, scope) in scopes::full() {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let finding = explore(scope, threads);
        print(name, &finding);
        is_good &= finding.is_good();
    }
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print(name: &str, finding: &Finding) {
    println!(
        "{name}: {} states, {} transitions, depth {}, {:.1} s",
        finding.states,
        finding.transitions,
        finding.depth,
        finding.took.as_secs_f64()
    );
    for milestone in &finding.unreached {
        println!("  never reached: {milestone}");
    }
    for (invariant, path) in &finding.broken {
        println!("  {} {invariant:?} is broken:", invariant.id());
        for (number, step) in path.iter().enumerate() {
            println!("    {:2}. {step}", number + 1);
        }
    }
}
