//! Whether every job ends if nothing but time goes on: nobody verifies, nobody works any more, no
//! device comes back; only agents that wait for a verdict keep asking.
//!
//! stateright's *eventually* overlooks paths that join or end in a cycle, and this world has both, so
//! the promise is checked from every state by playing the one schedule that nobody can prevent.

use fencepost_domain::attempt::AttemptStatus;

use crate::rules::apply;
use crate::scope::Scope;
use crate::step::{Frame, Step};
use crate::world::{ATTEMPTS, JOBS, World};

/// More than the longest lease, clock jump and row of take-overs together.
const ROUNDS: usize = 12;

/// Whether every submitted job ends within the longest time that anything is waited for.
pub fn ends_when_time_goes_on(world: &World, scope: &Scope) -> bool {
    let mut world = *world;
    for _ in 0..ROUNDS {
        if world.jobs().all(|(_, job)| job.status.is_terminal()) {
            return true;
        }
        world = round(world, scope);
    }
    false
}

fn round(mut world: World, scope: &Scope) -> World {
    for at in 0..ATTEMPTS {
        if let Some(attempt) = world.attempts[at]
            && attempt.status == AttemptStatus::Committing
        {
            let ask = Step::Frame {
                attempt: at,
                frame: Frame::Progress,
                pair: attempt.lease,
                slow: false,
            };
            world = apply(&world, &ask, scope);
        }
    }
    world = apply(&world, &Step::Tick, scope);
    for at in 0..ATTEMPTS {
        if world.attempts[at].is_some_and(|attempt| attempt.status.is_live()) {
            world = apply(&world, &Step::Sweep(at), scope);
            world = apply(&world, &Step::ForceCancel(at), scope);
        }
    }
    for job in 0..JOBS {
        world = apply(&world, &Step::Deadline(job), scope);
        world = apply(&world, &Step::Tend(job), scope);
    }
    world
}
