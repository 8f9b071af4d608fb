//! An agent's frame about one attempt.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::ending::Cause;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::{AttemptFence, LeaseClaim, Operation, check};
use fencepost_domain::ids::{AttemptId, DeviceId, JobId};
use fencepost_domain::job::JobStatus;
use uuid::Uuid;

use super::end::{NOW, end};
use super::{TAKE_OVER, TTL, read};
use crate::scope::{Fault, Scope};
use crate::step::Frame;
use crate::world::{Attempt, Pair, World};

pub(super) fn arrives(world: &mut World, scope: &Scope, at: usize, frame: Frame, pair: Pair) {
    let Some((attempt, job)) = read(world, at) else {
        return;
    };
    if frame == Frame::Stopped {
        let acts = attempt.status.is_live() && attempt.lease.epoch == pair.epoch;
        if acts && job.status == JobStatus::Cancelling {
            end(world, scope, at, Cause::Stopped);
        }
        return;
    }
    // The writer's repeat is answered from what is stored.
    if frame.needs_token() && attempt.writer == Some(pair) {
        return;
    }
    if attempt.status == AttemptStatus::Committing && !frame.needs_token() {
        put_off_take_over(world, scope, at);
        return;
    }
    let is_losing = frame == Frame::Commit && job.status == JobStatus::Cancelling;
    let operation = match frame {
        Frame::Accept | Frame::Progress | Frame::Stopped => Operation::Progress,
        // A losing commit needs the whole lease, but not a finished upload: it ends the attempt.
        Frame::Commit if is_losing => Operation::Fail,
        Frame::Commit => Operation::Commit,
        Frame::Fail | Frame::FailForGood => Operation::Fail,
        Frame::Release => Operation::Release,
    };
    if !is_fenced_right(scope, at, &attempt, pair, operation) {
        return;
    }
    match frame {
        Frame::Accept | Frame::Progress | Frame::Stopped => {
            if job.status != JobStatus::Cancelling {
                renew(world, scope, at, frame);
            }
            return;
        }
        Frame::Commit if !is_losing => return accept_commit(world, at, pair),
        Frame::Commit => end(world, scope, at, Cause::Verified),
        Frame::Fail => {
            end(
                world,
                scope,
                at,
                Cause::AgentFailed(FailureCode::DownloadFailed),
            );
        }
        Frame::FailForGood => end(
            world,
            scope,
            at,
            Cause::AgentFailed(FailureCode::RunnerFailed),
        ),
        Frame::Release => end(world, scope, at, Cause::Released),
    }
    if let Some(attempt) = &mut world.attempts[at] {
        attempt.writer = Some(pair);
    }
}

/// The store's fence, by the domain's function.
pub(super) fn is_fenced_right(
    scope: &Scope,
    at: usize,
    attempt: &Attempt,
    presented: Pair,
    operation: Operation,
) -> bool {
    let mut pair = presented;
    if scope.has(Fault::ReplacedPairIsNotDead) && attempt.replaced == Some(pair) {
        pair = attempt.lease;
    }
    if scope.has(Fault::NoEpochCheck) {
        pair.epoch = attempt.lease.epoch;
    }
    if scope.has(Fault::NoTokenCheck) {
        pair.token = attempt.lease.token;
    }
    let id = |n: usize| Uuid::from_u128(n as u128);
    let stored = AttemptFence {
        device: DeviceId(id(attempt.device.into())),
        job: JobId(id(attempt.job.into())),
        attempt: AttemptId(id(at)),
        epoch: attempt.lease.epoch.into(),
        digest: digest(attempt.lease),
        status: attempt.status,
        expires_at: Some(NOW + time::Duration::seconds(attempt.until.into())),
    };
    let claim = LeaseClaim {
        device: stored.device,
        job: stored.job,
        attempt: stored.attempt,
        epoch: pair.epoch.into(),
    };
    let token = digest(pair).filter(|_| operation.needs_token());
    // That the clock is not behind its mark was seen to before.
    let clock = ClockReading {
        now: NOW,
        mark: NOW,
    };
    check(&stored, &claim, token.as_ref(), operation, clock).is_ok()
}

fn digest(pair: Pair) -> Option<CommitTokenDigest> {
    CommitTokenDigest::from_bytes(&[pair.token; 32])
}

fn renew(world: &mut World, scope: &Scope, at: usize, frame: Frame) {
    let Some(attempt) = &mut world.attempts[at] else {
        return;
    };
    let said = match frame {
        Frame::Progress => AttemptStatus::Uploading,
        _ => attempt.status,
    };
    if said > attempt.status {
        attempt.resumes = 0;
        attempt.status = said;
    }
    attempt.accepted = true;
    attempt.until = attempt.until.max(TTL);
    if !scope.has(Fault::ReplacedPairOutlivesNewOne) {
        attempt.replaced = None;
    }
}

fn accept_commit(world: &mut World, at: usize, pair: Pair) {
    let Some(attempt) = &mut world.attempts[at] else {
        return;
    };
    attempt.status = AttemptStatus::Committing;
    attempt.writer = Some(pair);
    attempt.replaced = None;
    attempt.resumes = 0;
    attempt.pickup = 1;
    attempt.tickets = 1;
    attempt.until = TAKE_OVER;
    if let Some(job) = &mut world.jobs[usize::from(attempt.job)] {
        job.status = JobStatus::Verifying;
    }
}

fn put_off_take_over(world: &mut World, scope: &Scope, at: usize) {
    if scope.has(Fault::ProgressRenewsVerification)
        && let Some(attempt) = &mut world.attempts[at]
    {
        attempt.until = TTL;
    }
}
