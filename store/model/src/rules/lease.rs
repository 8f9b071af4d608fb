//! What buyers, matchers and operators do.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::Cause;
use fencepost_domain::job::JobStatus;

use super::OFFER;
use super::end::{end, end_job};
use crate::scope::Scope;
use crate::world::{ATTEMPTS, Attempt, Job, Pair, World};

pub(super) fn submit(world: &mut World, job: usize) {
    world.jobs[job].get_or_insert_with(Job::submitted);
}

pub(super) fn cancel(world: &mut World, scope: &Scope, place: usize) {
    let Some(job) = &mut world.jobs[place] else {
        return;
    };
    match job.status {
        JobStatus::Queued => end_job(job, JobStatus::Cancelled),
        JobStatus::Active | JobStatus::Verifying => {
            job.status = JobStatus::Cancelling;
            job.was_cancelling = true;
            let offered = world
                .attempts()
                .find(|(_, attempt)| usize::from(attempt.job) == place && is_unaccepted(attempt));
            if let Some((at, _)) = offered {
                end(world, scope, at, Cause::CancelForced);
            }
        }
        JobStatus::Cancelling | JobStatus::Succeeded | JobStatus::Failed | JobStatus::Cancelled => {
        }
    }
}

pub(super) fn is_unaccepted(attempt: &Attempt) -> bool {
    attempt.status == AttemptStatus::Leased && !attempt.accepted
}

pub(super) fn lease(world: &mut World, scope: &Scope, place: usize, device: usize) {
    let free =
        (0..usize::from(scope.attempts).min(ATTEMPTS)).find(|at| world.attempts[*at].is_none());
    let (Some(at), Some(job)) = (free, &mut world.jobs[place]) else {
        return;
    };
    let status = world.snapshot[place].take().unwrap_or(job.status);
    let row = world.devices[device];
    if status != JobStatus::Queued || !row.enabled || row.current == 0 {
        return;
    }
    job.epochs += 1;
    job.status = JobStatus::Active;
    world.attempts[at] = Some(Attempt {
        job: u8::from(place == 1),
        device: u8::from(device == 1),
        session: row.current,
        status: AttemptStatus::Leased,
        accepted: false,
        resumes: 0,
        first: job.epochs,
        lease: Pair::minted(job.epochs),
        until: OFFER,
        replaced: None,
        writer: None,
        pickup: 0,
        tickets: 0,
        charged: false,
    });
}

/// Fenced by the epoch that it was leased with, and by "not accepted".
pub(super) fn return_offer(world: &mut World, scope: &Scope, at: usize) {
    let offered = world.attempts[at]
        .is_some_and(|attempt| is_unaccepted(&attempt) && attempt.lease.epoch == attempt.first);
    if offered {
        end(world, scope, at, Cause::Returned);
    }
}

pub(super) fn revoke(world: &mut World, scope: &Scope, at: usize) {
    if world.attempts[at].is_some_and(|attempt| attempt.status.is_live()) {
        end(world, scope, at, Cause::Revoked);
    }
}

/// An attempt that is committing goes on.
pub(super) fn disable(world: &mut World, scope: &Scope, device: usize) {
    world.devices[device].enabled = false;
    for at in 0..ATTEMPTS {
        let ends = world.attempts[at].is_some_and(|attempt| {
            usize::from(attempt.device) == device && attempt.status.is_held_by_agent()
        });
        if ends {
            end(world, scope, at, Cause::Revoked);
        }
    }
}
