//! The simulation: generated lists of what buyers, agents, gateways, operators and the clock do drive
//! the real store on a real Postgres and a plain reference of the same rules side by side. After every
//! step what the store answered, every row that decides anything, and the checker's sentences are
//! compared; a list that finds something is shortened to the steps that it needs.
//!
//! Wrong is: an answer other than the reference's, a row other than the reference's, a broken
//! sentence, an error of the store. Of two calls at the same time (on two gateways) the outcome must
//! be that of one after the other, in either order. Where a COMMIT's answer was lost, an answer may
//! differ in who is said to have done it first.
//!
//! What a seed does not repeat: ids and secrets, and how two calls at the same time meet.
//!
//! `make sim SEED=… CASES=…` runs as many lists as one likes; `make test` always runs the same ones
//! and some that nobody has run before.

mod call;
mod cases;
mod drive;
mod names;
mod ops;
mod pinned;
mod plan;
mod planted;
mod reference;
mod rows;
mod run;
mod site;

use cases::{Cases, nothing_is_found};
use fencepost_domain::ids::JobId;

const SHRINK: u32 = 3_000;

/// A setting in the environment.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    text.map(|text| text.parse().expect("a whole number"))
}

/// One that nobody has used before.
fn new_seed() -> u64 {
    let (_, random) = JobId::new().0.as_u64_pair();
    random % 1_000_000_000
}

#[test]
fn the_lists_that_are_always_run_do_everything_and_find_nothing() {
    let tally = nothing_is_found(Cases {
        seed: 67,
        lists: 150,
        shrink: SHRINK,
    });
    for said in [
        "Cancel: Cancelled",
        "Commit: Final",
        "Commit: Refused",
        "Commit: Verify",
        "End: Final",
        "Event: Written",
        "Hello: Superseded",
        "Hello: Welcome",
        "Progress: Renewed",
        "Progress: Stop",
        "Repair: Done",
        "Revoke: Final",
        "Round: Leased",
        "Settle: Final",
        "Settle: TakenOver",
        "Submit: SameJob",
        "Sweep: Swept",
    ] {
        assert!(tally.contains_key(said), "never {said}: {tally:#?}");
    }
}

/// As many as `SIM_CASES` says, from `SIM_SEED` on.
#[test]
fn lists_that_nobody_has_run_find_nothing() {
    nothing_is_found(Cases {
        seed: setting("SIM_SEED").unwrap_or_else(new_seed),
        lists: setting("SIM_CASES")
            .and_then(|cases| u32::try_from(cases).ok())
            .unwrap_or(50),
        shrink: SHRINK,
    });
}
