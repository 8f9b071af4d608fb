//! The one way in which attempts and jobs end.

use std::time::Duration;

use fencepost_domain::ending::{Cause, Ending, JobFacts, JobNext, decide};
use fencepost_domain::job::JobStatus;
use time::OffsetDateTime;

use super::read;
use crate::scope::{Fault, Scope};
use crate::world::{Job, World};

/// The authority's present, as the domain's functions are told it.
pub(super) const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const HOUR: Duration = Duration::from_hours(1);

/// Ends a live attempt.
pub(super) fn end(world: &mut World, scope: &Scope, attempt: usize, cause: Cause) {
    let Some((_, job)) = read(world, attempt) else {
        return;
    };
    let ending = decide(&facts(&job, scope), cause, NOW);
    write(world, scope, attempt, &ending);
}

fn facts(job: &Job, scope: &Scope) -> JobFacts {
    JobFacts {
        status: job.status,
        max_attempts: i32::from(scope.max_attempts),
        charged_attempts: i32::from(job.charged),
        returned_offers: 0,
        returned_widely: false,
        admission_deadline: if job.overdue { NOW } else { NOW + HOUR },
    }
}

fn write(world: &mut World, scope: &Scope, at: usize, ending: &Ending) {
    let Some(attempt) = &mut world.attempts[at] else {
        return;
    };
    let place = usize::from(attempt.job);
    let Some(job) = &mut world.jobs[place] else {
        return;
    };
    let charged = ending.charged && !scope.has(Fault::LossesAreFree);
    attempt.status = ending.attempt;
    attempt.charged = charged;
    attempt.replaced = None;
    (attempt.session, attempt.resumes, attempt.until) = (0, 0, 0);
    attempt.accepted = false;
    attempt.first = attempt.lease.token;
    attempt.pickup = 0;
    job.charged += u8::from(charged);
    if ending.forced {
        let epoch = job.epochs + 1;
        attempt.lease.epoch = epoch;
        if !scope.has(Fault::RevokeKeepsCounter) {
            job.epochs = epoch;
        }
    }
    if ending.job == JobNext::Succeeded {
        job.outputs |= 1 << at;
    }
    end_job(job, ending.job.status());
    world.snapshot[place] = None;
}

/// Moves a job, and settles its hold and tells its buyer if that is its end.
pub(super) fn end_job(job: &mut Job, next: JobStatus) {
    job.status = next;
    if !next.is_terminal() {
        return;
    }
    job.events = job.events.saturating_add(1);
    if next == JobStatus::Succeeded {
        job.captured = job.captured.saturating_add(1);
    } else {
        job.released = job.released.saturating_add(1);
    }
}
