//! What a world must come to, or its promises were kept by doing nothing.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::job::JobStatus;

use crate::explore::{Exploration, State};
use crate::scope::Scope;
use crate::world::{Attempt, Job};

/// Something that must be reached.
pub(crate) struct Milestone {
    pub(crate) name: &'static str,
    /// Whether a scope is large enough for it.
    pub(crate) is_expected: fn(&Scope) -> bool,
    pub(crate) is_reached: fn(&Exploration, &State) -> bool,
}

pub(crate) const MILESTONES: [Milestone; 8] = [
    Milestone {
        name: "a job succeeds",
        is_expected: |_| true,
        is_reached: |_, state| any_job(state, |job| job.status == JobStatus::Succeeded),
    },
    Milestone {
        name: "a job fails",
        is_expected: |_| true,
        is_reached: |_, state| any_job(state, |job| job.status == JobStatus::Failed),
    },
    Milestone {
        name: "an accepted job is cancelled",
        is_expected: |_| true,
        is_reached: |_, state| {
            any_job(state, |job| {
                job.was_cancelling && job.status == JobStatus::Cancelled
            })
        },
    },
    Milestone {
        name: "a budget is used up",
        is_expected: |scope| scope.attempts >= scope.max_attempts,
        is_reached: |model, state| any_job(state, |job| job.charged == model.scope.max_attempts),
    },
    Milestone {
        name: "the last attempt runs",
        is_expected: |_| true,
        is_reached: |model, state| {
            let last = usize::from(model.scope.attempts) - 1;
            let running = |one: Attempt| one.status == AttemptStatus::Uploading;
            state.world.attempts[last].is_some_and(running)
        },
    },
    Milestone {
        name: "a resume's welcome may be lost",
        is_expected: |_| true,
        is_reached: |_, state| any_attempt(state, |one| one.replaced.is_some()),
    },
    Milestone {
        name: "two gateways are at one verification",
        is_expected: |scope| scope.pickups > 1,
        is_reached: |_, state| any_attempt(state, |one| one.tickets.count_ones() > 1),
    },
    Milestone {
        name: "the clock is behind its mark under a live lease",
        is_expected: |scope| scope.jumps > 0,
        is_reached: |_, state| {
            state.world.clock.has_regressed() && any_attempt(state, |one| one.status.is_live())
        },
    },
];

fn any_job(state: &State, is_it: impl Fn(&Job) -> bool) -> bool {
    state.world.jobs().any(|(_, job)| is_it(job))
}

fn any_attempt(state: &State, is_it: impl Fn(&Attempt) -> bool) -> bool {
    state.world.attempts().any(|(_, attempt)| is_it(attempt))
}
