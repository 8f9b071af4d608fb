//! Between the two transactions of a commit, and the second one.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::Cause;
use fencepost_domain::job::JobStatus;

use super::end::end;
use super::{TAKE_OVER, read};
use crate::scope::{Fault, Scope};
use crate::step::Outcome;
use crate::world::World;

/// The second half of a commit.
pub(super) fn settle(
    world: &mut World,
    scope: &Scope,
    (at, pickup): (usize, u8),
    outcome: Outcome,
) {
    drop_ticket(world, at, pickup);
    let Some((attempt, job)) = read(world, at) else {
        return;
    };
    let is_current = attempt.pickup == pickup || scope.has(Fault::NoVerificationEpoch);
    if attempt.status != AttemptStatus::Committing || !is_current {
        return;
    }
    let cause = match outcome {
        Outcome::Good => Cause::Verified,
        Outcome::MediaRejected => Cause::MediaRejected,
        Outcome::BytesDiffer => Cause::BytesDiffer,
        Outcome::Trouble => Cause::VerificationTrouble,
    };
    let is_last = attempt.pickup >= scope.pickups || job.status == JobStatus::Cancelling;
    if outcome != Outcome::Trouble || is_last {
        end(world, scope, at, cause);
    } else if let Some(attempt) = &mut world.attempts[at] {
        attempt.until = TAKE_OVER;
    }
}

/// A gateway is not at it any more.
pub(super) fn drop_ticket(world: &mut World, at: usize, pickup: u8) {
    if let Some(attempt) = &mut world.attempts[at] {
        attempt.tickets &= !(1 << (pickup - 1));
    }
}

/// Puts the take-over off.
pub(super) fn renew(world: &mut World, at: usize, pickup: u8) {
    if let Some(attempt) = &mut world.attempts[at]
        && attempt.status == AttemptStatus::Committing
        && attempt.pickup == pickup
    {
        attempt.until = TAKE_OVER;
    }
}
