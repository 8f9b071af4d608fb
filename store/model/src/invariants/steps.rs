//! Promises about how what is stored may change, whoever changes it.

use fencepost_domain::attempt::AttemptStatus;

use super::Transition;
use crate::step::Step;
use crate::world::{ATTEMPTS, Attempt, JOBS};

/// Attempts before and after.
fn attempts<'a>(
    of: &'a Transition<'_>,
) -> impl Iterator<Item = (Option<&'a Attempt>, &'a Attempt)> {
    (0..ATTEMPTS).filter_map(|at| {
        let old = of.before.attempts[at].as_ref();
        of.after.attempts[at].as_ref().map(|new| (old, new))
    })
}

pub(super) fn ended_stays(of: &Transition<'_>) -> bool {
    (0..JOBS).all(|at| match (of.before.jobs[at], of.after.jobs[at]) {
        (Some(old), Some(new)) if old.status.is_terminal() => {
            (old.status, old.outputs, old.charged) == (new.status, new.outputs, new.charged)
        }
        (Some(_), None) => false,
        _ => true,
    })
}

/// The one who brings an attempt to committing presents the pair that is current.
pub(super) fn committer_held_the_lease(of: &Transition<'_>) -> bool {
    let Step::Frame { attempt, pair, .. } = of.step else {
        return true;
    };
    let (Some(old), Some(new)) = (of.before.attempts[*attempt], of.after.attempts[*attempt]) else {
        return true;
    };
    let commits = old.status != new.status && new.status == AttemptStatus::Committing;
    !commits || (*pair == old.lease && new.writer == Some(*pair))
}

pub(super) fn epochs_increase(of: &Transition<'_>) -> bool {
    let counters = (0..JOBS).all(|at| match (of.before.jobs[at], of.after.jobs[at]) {
        (Some(old), Some(new)) => new.epochs >= old.epochs,
        _ => true,
    });
    counters
        && attempts(of).all(|(old, new)| {
            let job = usize::from(new.job);
            let issued = of.before.jobs[job].map_or(0, |job| job.epochs);
            let counter = of.after.jobs[job].map_or(0, |job| job.epochs);
            let is_new = old.is_none_or(|old| old.lease != new.lease);
            !is_new || (new.lease.epoch > issued && new.lease.epoch <= counter)
        })
}

/// A job is charged once for each attempt that ended charged, when it ends.
pub(super) fn charges_agree(of: &Transition<'_>) -> bool {
    (0..JOBS).all(|at| {
        let charged =
            |job: Option<crate::world::Job>| job.map_or(0, |job| usize::from(job.charged));
        let newly = attempts(of).filter(|(old, new)| {
            usize::from(new.job) == at && new.charged && old.is_none_or(|old| !old.charged)
        });
        charged(of.after.jobs[at]) == charged(of.before.jobs[at]) + newly.count()
    })
}

/// What ended an accepted attempt by time or by hello, without a cancel, used up budget.
pub(super) fn losses_are_charged(of: &Transition<'_>) -> bool {
    let by_time = matches!(of.step, Step::Sweep(_) | Step::Hello { .. });
    !by_time
        || attempts(of).all(|(old, new)| {
            let lost = old.is_some_and(|old| old.accepted && old.status.is_held_by_agent())
                && new.status == AttemptStatus::Lost;
            !lost || new.charged
        })
}

pub(super) fn only_known_arrows(of: &Transition<'_>) -> bool {
    let jobs = (0..JOBS).all(|at| match (of.before.jobs[at], of.after.jobs[at]) {
        (Some(old), Some(new)) => {
            let (old, new) = (old.status, new.status);
            // Cancelling is passed through when nobody had accepted the offer yet.
            let passed = matches!(of.step, Step::Cancel(_))
                && new == fencepost_domain::job::JobStatus::Cancelled
                && old == fencepost_domain::job::JobStatus::Active;
            old == new || old.can_become(new) || passed
        }
        _ => true,
    });
    jobs && attempts(of).all(|(old, new)| {
        old.is_none_or(|old| old.status == new.status || old.status.can_become(new.status))
    })
}

pub(super) fn live_lease_is_not_swept(of: &Transition<'_>) -> bool {
    let Step::Sweep(at) = of.step else {
        return true;
    };
    match (of.before.attempts[*at], of.after.attempts[*at]) {
        (Some(old), Some(new)) => old.until <= 0 || old == new,
        _ => true,
    }
}
