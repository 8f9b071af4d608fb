//! The transactions, one file for each kind, as the store has them. Decisions are the domain's.
//!
//! A transaction is one step: the rows that it decides on are locked, so nothing comes in between,
//! except time. A *slow* frame or hello is one during which the clock ticks between the judgement
//! and COMMIT; what claims an agent's lease must then find the old expiry still ahead.

mod end;
mod frame;
mod hello;
mod lease;
mod time;
mod verify;

use fencepost_domain::attempt::AttemptStatus;

use crate::scope::{Fault, Scope};
use crate::step::{Frame, Step};
use crate::world::{ATTEMPTS, Attempt, Job, World};

use frame::is_fenced_right;
pub(crate) use time::tick;

/// Ticks to accept an offer.
pub const OFFER: i8 = 1;
/// Ticks of an accepted lease.
pub const TTL: i8 = 2;
/// Ticks until another gateway may take a verification over.
pub const TAKE_OVER: i8 = 1;

/// The world after a step. A step that is refused changes nothing.
pub fn apply(before: &World, step: &Step, scope: &Scope) -> World {
    let mut world = *before;
    if before.clock.has_regressed()
        && compares_an_expiry(step)
        && !scope.has(Fault::BelievesRegressedClock)
    {
        return commit_slowly(before, world, scope, step.is_slow());
    }
    match *step {
        Step::Submit(job) => lease::submit(&mut world, job),
        Step::Cancel(job) => lease::cancel(&mut world, scope, job),
        Step::Deadline(job) => time::deadline(&mut world, job),
        Step::Tend(job) => time::tend(&mut world, job),
        Step::Lease { job, device } => lease::lease(&mut world, scope, job, device),
        Step::ReturnOffer(attempt) => lease::return_offer(&mut world, scope, attempt),
        Step::Frame {
            attempt,
            frame,
            pair,
            ..
        } => {
            frame::arrives(&mut world, scope, attempt, frame, pair);
            return commit_slowly(before, world, scope, step.is_slow());
        }
        Step::Hello { hello, .. } => {
            hello::arrives(&mut world, scope, &hello);
            return commit_slowly(before, world, scope, step.is_slow());
        }
        Step::Sweep(attempt) => time::sweep(&mut world, scope, attempt),
        Step::ForceCancel(attempt) => time::force_cancel(&mut world, scope, attempt),
        Step::Settle {
            attempt,
            pickup,
            outcome,
        } => verify::settle(&mut world, scope, (attempt, pickup), outcome),
        Step::RenewVerification { attempt, pickup } => verify::renew(&mut world, attempt, pickup),
        Step::Crash { attempt, pickup } => verify::drop_ticket(&mut world, attempt, pickup),
        Step::Revoke(attempt) => lease::revoke(&mut world, scope, attempt),
        Step::Disable(device) => lease::disable(&mut world, scope, device),
        Step::ClockAccept => time::accept_clock(&mut world, scope),
        Step::Tick => time::tick(&mut world),
        Step::JumpBack => time::jump_back(&mut world),
        Step::Mark => time::mark(&mut world),
        Step::Look(job) => world.snapshot[job] = world.jobs[job].map(|job| job.status),
    }
    world
}

/// What waits while the clock is behind its mark.
fn compares_an_expiry(step: &Step) -> bool {
    match step {
        Step::Frame { frame, .. } => *frame != Frame::Stopped,
        Step::Lease { .. } | Step::Hello { .. } | Step::Sweep(_) | Step::ForceCancel(_) => true,
        _ => false,
    }
}

/// The last act before COMMIT: whoever claims a lease must find its old end ahead of the clock.
fn commit_slowly(before: &World, after: World, scope: &Scope, slow: bool) -> World {
    if !slow {
        return after;
    }
    let mut rolled_back = *before;
    tick(&mut rolled_back);
    let claimed_dead = claimed(before, &after)
        .any(|(at, _)| rolled_back.attempts[at].is_none_or(|a| a.until <= 0));
    if claimed_dead && !scope.has(Fault::NoExpiryReCheck) {
        return rolled_back;
    }
    let mut committed = after;
    tick(&mut committed);
    committed
}

/// The attempts whose lease a transition claims, as they were before.
pub(crate) fn claimed<'a>(
    before: &'a World,
    after: &'a World,
) -> impl Iterator<Item = (usize, &'a Attempt)> {
    (0..ATTEMPTS).filter_map(move |at| {
        let (old, new) = (before.attempts[at].as_ref()?, after.attempts[at].as_ref()?);
        let is_claim = old != new
            && old.status.is_held_by_agent()
            && !matches!(new.status, AttemptStatus::Lost | AttemptStatus::Cancelled);
        is_claim.then_some((at, old))
    })
}

/// An attempt and its job, as a transaction reads them under their locks.
fn read(world: &World, attempt: usize) -> Option<(Attempt, Job)> {
    let row = world.attempts[attempt]?;
    let job = usize::from(row.job);
    let mut facts = world.jobs[job]?;
    // Only a planted fault has a snapshot.
    facts.status = world.snapshot[job].unwrap_or(facts.status);
    Some((row, facts))
}
