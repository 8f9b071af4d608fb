//! A device says hello: what it holds goes on, what it forgot is lost.

use fencepost_domain::ending::Cause;
use fencepost_domain::fencing::Operation;
use fencepost_domain::job::JobStatus;

use super::end::end;
use super::{TTL, is_fenced_right, read};
use crate::scope::{Fault, Scope};
use crate::step::Hello;
use crate::world::{ATTEMPTS, Attempt, Job, Pair, World};

pub(super) fn arrives(world: &mut World, scope: &Scope, hello: &Hello) {
    let device = &mut world.devices[usize::from(hello.device)];
    let is_old = device.current > hello.session && !scope.has(Fault::HearsOlderSession);
    if is_old || !device.enabled {
        return;
    }
    device.current = hello.session;
    for at in 0..ATTEMPTS {
        let Some((attempt, job)) = read(world, at) else {
            continue;
        };
        if attempt.device != hello.device || !attempt.status.is_live() {
            continue;
        }
        match hello.held[at] {
            Some(pair) if is_resumable(scope, at, (&attempt, &job), pair) => {
                rotate(world, scope, at, (pair, hello.session));
            }
            _ => end_left_over(world, scope, at, hello.session),
        }
    }
}

/// Whether a hello that presents `pair` goes on with the attempt.
fn is_resumable(scope: &Scope, at: usize, (attempt, job): (&Attempt, &Job), pair: Pair) -> bool {
    if scope.has(Fault::RotateCommitting) && job.status == JobStatus::Verifying {
        return pair == attempt.lease;
    }
    let twice = attempt.replaced == Some(pair);
    let mut claimed = *attempt;
    if twice {
        // The same lease under the pair that the lost welcome should have replaced.
        claimed.lease = pair;
    }
    is_fenced_right(scope, at, &claimed, pair, Operation::Release)
        && job.status == JobStatus::Active
        && (twice || attempt.resumes < scope.resumes)
}

fn rotate(world: &mut World, scope: &Scope, at: usize, (presented, session): (Pair, u8)) {
    let Some(attempt) = &mut world.attempts[at] else {
        return;
    };
    let Some(job) = &mut world.jobs[usize::from(attempt.job)] else {
        return;
    };
    let twice = attempt.replaced == Some(presented);
    job.epochs += 1;
    attempt.replaced = if scope.has(Fault::ForgetsReplacedPair) {
        None
    } else if scope.has(Fault::RemembersOverwrittenPair) {
        Some(attempt.lease)
    } else {
        Some(presented)
    };
    attempt.lease = Pair::minted(job.epochs);
    attempt.session = session;
    attempt.accepted = true;
    if !twice {
        attempt.resumes += 1;
        attempt.until = attempt.until.max(TTL);
    }
}

/// Ends what was leased or resumed under a lower session and does not go on.
fn end_left_over(world: &mut World, scope: &Scope, at: usize, session: u8) {
    let Some((attempt, _)) = read(world, at) else {
        return;
    };
    let is_older = attempt.session < session || scope.has(Fault::ReconcilesOwnSession);
    let is_held = attempt.status.is_held_by_agent() || scope.has(Fault::ForgetCommitting);
    if !is_older || !is_held {
        return;
    }
    let cause = match (attempt.accepted, attempt.until <= 0) {
        (false, _) => Cause::Returned,
        (true, true) => Cause::Expired,
        (true, false) if attempt.resumes >= scope.resumes => Cause::ResumeBound,
        (true, false) => Cause::Forgotten,
    };
    end(world, scope, at, cause);
}
