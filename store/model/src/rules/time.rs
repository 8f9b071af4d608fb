//! What time does, and what the clock does to time.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::Cause;
use fencepost_domain::job::JobStatus;

use super::end::{end, end_job};
use super::lease::is_unaccepted;
use super::{TAKE_OVER, read};
use crate::scope::{Fault, Scope};
use crate::world::{ATTEMPTS, LONG_AGO, World};

/// Time passes.
pub(crate) fn tick(world: &mut World) {
    shift(world, -1);
}

pub(super) fn jump_back(world: &mut World) {
    shift(world, 1);
    world.clock.jumps += 1;
}

fn shift(world: &mut World, by: i8) {
    world.clock.mark = (world.clock.mark + by).max(LONG_AGO);
    for attempt in world.attempts.iter_mut().flatten() {
        if attempt.status.is_live() {
            attempt.until = (attempt.until + by).max(LONG_AGO);
        }
    }
}

pub(super) fn mark(world: &mut World) {
    world.clock.mark = world.clock.mark.max(0);
}

/// All live leases end, uncharged, and the clock is believed again.
pub(super) fn accept_clock(world: &mut World, scope: &Scope) {
    for at in 0..ATTEMPTS {
        if world.attempts[at].is_some_and(|attempt| attempt.status.is_held_by_agent()) {
            end(world, scope, at, Cause::ClockAccepted);
        }
    }
    world.clock.mark = 0;
}

pub(super) fn deadline(world: &mut World, job: usize) {
    if let Some(job) = &mut world.jobs[job] {
        job.overdue = true;
    }
}

pub(super) fn tend(world: &mut World, job: usize) {
    if let Some(job) = &mut world.jobs[job]
        && job.status == JobStatus::Queued
        && job.overdue
    {
        end_job(job, JobStatus::Failed);
    }
}

/// The sweeper looks at an attempt that may be due (it may look at any: when it last planned to
/// look is not when the lease ends), and judges again under the lock.
pub(super) fn sweep(world: &mut World, scope: &Scope, at: usize) {
    let Some((attempt, _)) = read(world, at) else {
        return;
    };
    let is_due = attempt.until <= 0 || scope.has(Fault::SweepWithoutReCheck);
    if !attempt.status.is_live() || !is_due {
        return;
    }
    if attempt.status != AttemptStatus::Committing {
        let cause = if is_unaccepted(&attempt) {
            Cause::Returned
        } else {
            Cause::Expired
        };
        return end(world, scope, at, cause);
    }
    if attempt.pickup >= scope.pickups {
        return end(world, scope, at, Cause::VerificationTrouble);
    }
    if let Some(attempt) = &mut world.attempts[at] {
        attempt.pickup += 1;
        attempt.tickets |= 1 << (attempt.pickup - 1);
        attempt.until = TAKE_OVER;
    }
}

pub(super) fn force_cancel(world: &mut World, scope: &Scope, at: usize) {
    let Some((attempt, job)) = read(world, at) else {
        return;
    };
    if attempt.status.is_live() && job.status == JobStatus::Cancelling {
        end(world, scope, at, Cause::CancelForced);
    }
}
