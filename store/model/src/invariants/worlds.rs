//! Promises about what is stored, whatever happened.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::job::JobStatus;

use crate::scope::Scope;
use crate::world::World;

pub(super) fn one_live_attempt(world: &World) -> bool {
    world.jobs().all(|(at, _)| world.live_of(at).count() <= 1)
}

pub(super) fn ended_has_no_authority(world: &World) -> bool {
    let mut ended = world.jobs().filter(|(_, job)| job.status.is_terminal());
    ended.all(|(at, _)| world.live_of(at).next().is_none())
}

pub(super) fn one_output(world: &World) -> bool {
    world.jobs().all(|(_, job)| {
        let succeeded = u32::from(job.status == JobStatus::Succeeded);
        job.outputs.count_ones() == succeeded
    }) && world.attempts().all(|(at, attempt)| {
        let job = world.jobs[usize::from(attempt.job)];
        let won = job.is_some_and(|job| job.outputs & (1 << at) != 0);
        let succeeded = attempt.status == AttemptStatus::Succeeded;
        won == succeeded && (!won || attempt.writer == Some(attempt.lease))
    })
}

pub(super) fn hold_settled_once(world: &World) -> bool {
    world.jobs().all(|(_, job)| {
        let captured = u8::from(job.status == JobStatus::Succeeded);
        let ended = u8::from(job.status.is_terminal());
        (job.captured, job.captured + job.released) == (captured, ended)
    })
}

pub(super) fn one_terminal_event(world: &World) -> bool {
    let mut jobs = world.jobs();
    jobs.all(|(_, job)| job.events == u8::from(job.status.is_terminal()))
}

pub(super) fn cancelling_never_succeeds(world: &World) -> bool {
    world.jobs().all(|(_, job)| {
        !job.was_cancelling || matches!(job.status, JobStatus::Cancelling | JobStatus::Cancelled)
    })
}

pub(super) fn budget_is_kept(world: &World, scope: &Scope) -> bool {
    let mut jobs = world.jobs();
    jobs.all(|(_, job)| job.charged <= scope.max_attempts)
}

pub(super) fn job_agrees_with_attempts(world: &World) -> bool {
    world.jobs().all(|(at, job)| {
        let mut live = world.live_of(at).map(|attempt| attempt.status);
        let first = live.next();
        let is_single = live.next().is_none();
        is_single
            && match job.status {
                JobStatus::Active => first.is_some_and(AttemptStatus::is_held_by_agent),
                JobStatus::Verifying => first == Some(AttemptStatus::Committing),
                JobStatus::Cancelling => first.is_some(),
                JobStatus::Queued
                | JobStatus::Succeeded
                | JobStatus::Failed
                | JobStatus::Cancelled => first.is_none(),
            }
    })
}
