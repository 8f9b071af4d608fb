//! Promises about who may change what. What authority is, is said here again and in other words
//! than in the fence, so that a mistake in one is caught by the other.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::job::JobStatus;

use super::Transition;
use crate::rules::claimed;
use crate::step::{Frame, Hello, Step};
use crate::world::{ATTEMPTS, Attempt, Pair, World};

pub(super) fn stale_changes_nothing(of: &Transition<'_>) -> bool {
    match of.step {
        Step::Frame {
            attempt,
            frame,
            pair,
            ..
        } => has_authority(of.before, *attempt, *frame, *pair) || of.after == of.aged,
        Step::Hello { hello, .. } => hello_stays_within_its_rights(of, hello),
        Step::Settle {
            attempt, pickup, ..
        } => {
            let current = of.before.attempts[*attempt].is_some_and(|row| {
                row.status == AttemptStatus::Committing && row.pickup == *pickup
            });
            current || is_same_but_for_tickets(of.before, of.after)
        }
        _ => true,
    }
}

fn has_authority(world: &World, at: usize, frame: Frame, pair: Pair) -> bool {
    let Some(attempt) = world.attempts[at] else {
        return false;
    };
    let Some(job) = world.jobs[usize::from(attempt.job)] else {
        return false;
    };
    let is_epoch = pair.epoch == attempt.lease.epoch;
    if frame == Frame::Stopped {
        return attempt.status.is_live() && is_epoch && job.status == JobStatus::Cancelling;
    }
    let is_token = pair.token == attempt.lease.token || !frame.needs_token();
    let is_agents = attempt.status.is_live() && attempt.status != AttemptStatus::Committing;
    is_epoch && is_token && is_agents && attempt.is_unexpired(world.clock)
}

fn hello_stays_within_its_rights(of: &Transition<'_>, hello: &Hello) -> bool {
    let device = of.before.devices[usize::from(hello.device)];
    if device.current > hello.session || !device.enabled {
        return of.after == of.aged;
    }
    (0..ATTEMPTS).all(|at| {
        let (Some(old), Some(new)) = (of.aged.attempts[at], of.after.attempts[at]) else {
            return true;
        };
        if old == new {
            return true;
        }
        let is_mine = old.device == hello.device && old.status.is_held_by_agent();
        let presented = hello.held[at];
        let is_current =
            presented == Some(old.lease) || (presented.is_some() && presented == old.replaced);
        let is_older = old.session < hello.session;
        is_mine
            && if new.status.is_live() {
                is_current
            } else {
                is_older
            }
    })
}

fn is_same_but_for_tickets(before: &World, after: &World) -> bool {
    let mut before = *before;
    for (old, new) in before.attempts.iter_mut().zip(&after.attempts) {
        if let (Some(old), Some(new)) = (old, new) {
            old.tickets = new.tickets;
        }
    }
    before == *after
}

pub(super) fn committing_is_ours(of: &Transition<'_>) -> bool {
    let stops = match of.step {
        Step::Frame { frame, .. } => *frame == Frame::Stopped,
        Step::Hello { .. } => false,
        _ => return true,
    };
    let mut committing = (0..ATTEMPTS).filter_map(|at| {
        let old = of.aged.attempts[at]?;
        (old.status == AttemptStatus::Committing).then_some((old, of.after.attempts[at]))
    });
    committing.all(|(old, new)| {
        let job = of.before.jobs[usize::from(old.job)];
        let is_cancelling = job.is_some_and(|job| job.status == JobStatus::Cancelling);
        Some(old) == new || (stops && is_cancelling)
    })
}

pub(super) fn dead_lease_claims_nothing(of: &Transition<'_>) -> bool {
    if !matches!(of.step, Step::Frame { .. } | Step::Hello { .. }) {
        return true;
    }
    let was_unexpired = |at: usize| {
        of.before.attempts[at].is_some_and(|attempt| attempt.is_unexpired(of.before.clock))
    };
    claimed(of.aged, of.after)
        .all(|(at, aged)| was_unexpired(at) && aged.is_unexpired(of.aged.clock))
}

pub(super) fn honest_agent_goes_on(of: &Transition<'_>) -> bool {
    let Step::Hello { hello, slow: false } = of.step else {
        return true;
    };
    if !of.is_honest || of.before.clock.has_regressed() {
        return true;
    }
    let is_enabled = of.before.devices[usize::from(hello.device)].enabled;
    (0..ATTEMPTS).all(|at| {
        let (Some(old), Some(new)) = (of.before.attempts[at], of.after.attempts[at]) else {
            return true;
        };
        let is_listed = hello.held[at].is_some() && old.device == hello.device;
        let deserves = is_listed && is_enabled && may_go_on(of, &old);
        !deserves || (new.status.is_live() && new.lease != old.lease)
    })
}

fn may_go_on(of: &Transition<'_>, attempt: &Attempt) -> bool {
    let job = of.before.jobs[usize::from(attempt.job)];
    job.is_some_and(|job| job.status == JobStatus::Active)
        && attempt.is_unexpired(of.before.clock)
        && attempt.resumes < of.scope.resumes
}

pub(super) fn replaced_pair_dies(of: &Transition<'_>) -> bool {
    let Step::Frame {
        attempt,
        frame: frame @ (Frame::Accept | Frame::Progress | Frame::Commit),
        pair,
        ..
    } = of.step
    else {
        return true;
    };
    let is_heard = has_authority(of.before, *attempt, *frame, *pair) && of.after != of.aged;
    !is_heard || of.after.attempts[*attempt].is_none_or(|row| row.replaced.is_none())
}
