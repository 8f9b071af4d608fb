//! What time does, and what the clock does to time.

use ::time::Duration as Span;
use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::{Cause, MAX_DELAY};
use fencepost_domain::job::JobStatus;

use super::ends::is_unaccepted;
use super::{GRACE, OFFER, Reference, TAKE_OVER, TTL};
use crate::call::{Answer, Key};

impl Reference {
    pub(super) fn move_clock(&mut self, by: Span) -> Answer {
        self.now += by;
        Answer::Done
    }

    /// At most once a second, and only by a clock that is not behind.
    pub(super) fn keep_mark(&mut self) -> Answer {
        if self.mark < self.now - Span::SECOND {
            self.mark = self.now;
        }
        Answer::Done
    }

    pub(super) fn sweep(&mut self) -> Answer {
        let (mut ended, mut verify) = (Vec::new(), Vec::new());
        let is_outage = self.now - self.swept_at >= TTL * 2;
        if let Some(by) = self.clock().regressed_by() {
            return Answer::Regressed(by);
        }
        for at in self.all(|row| row.status.is_live()) {
            match self.time_is_over(at, is_outage) {
                Some(cause) => ended.push(self.end(at, cause)),
                None if self.is_to_pick_up(at) => {
                    let until = self.now + TAKE_OVER;
                    let row = &mut self.attempt(at).row;
                    row.pickup += 1;
                    row.verify_until = Some(until);
                    verify.push((at, row.pickup));
                }
                None => {}
            }
        }
        if self.swept_at < self.now - Span::SECOND || self.swept_at > self.now {
            self.swept_at = self.now;
        }
        Answer::Swept { ended, verify }
    }

    fn time_is_over(&self, at: Key, is_outage: bool) -> Option<Cause> {
        let row = &self.attempts[&at].row;
        let job = &self.jobs[&at.0].row;
        let grace_is_over = job.cancelled_at.is_some_and(|at| at + GRACE <= self.now);
        if job.status == JobStatus::Cancelling && grace_is_over {
            return Some(Cause::CancelForced);
        }
        if row.status == AttemptStatus::Committing {
            let is_over = self.is_to_pick_up(at) && self.is_last_try(at);
            return is_over.then_some(Cause::VerificationTrouble);
        }
        let expired_at = row.expires_at.filter(|at| *at <= self.now)?;
        Some(if is_unaccepted(row) {
            Cause::Returned
        } else if is_outage && self.swept_at < expired_at {
            Cause::ExpiredInOutage
        } else {
            Cause::Expired
        })
    }

    /// Whether nobody has been at its verification for too long.
    fn is_to_pick_up(&self, at: Key) -> bool {
        let row = &self.attempts[&at].row;
        row.status == AttemptStatus::Committing
            && row.verify_until.is_none_or(|until| until <= self.now)
    }

    pub(super) fn renew_verification(&mut self, at: Key, pickup: i64) -> Answer {
        let (now, is_behind) = (self.now, self.clock().regressed_by().is_some());
        let row = &mut self.attempt(at).row;
        if row.status == AttemptStatus::Committing && row.pickup == pickup && !is_behind {
            row.verify_until = Some(now + TAKE_OVER);
        }
        Answer::Done
    }

    pub(super) fn accept_clock(&mut self) -> Answer {
        for at in self.all(|row| row.status.is_held_by_agent()) {
            self.end(at, Cause::ClockAccepted);
        }
        (self.mark, self.swept_at) = (self.now, self.now);
        self.pull_back()
    }

    /// What a clock that was ahead has written lasts no longer than if it began now.
    pub(super) fn pull_back(&mut self) -> Answer {
        let now = self.now;
        for job in self.jobs.values_mut() {
            job.row.wake_at = job.row.wake_at.map(|at| at.min(now + MAX_DELAY));
        }
        for (at, attempt) in &mut self.attempts {
            let row = &mut attempt.row;
            let latest = now + TAKE_OVER;
            let is_ahead =
                row.leased_at > now || row.verify_until.is_some_and(|until| until > latest);
            if !row.status.is_live() || !is_ahead {
                continue;
            }
            let length = if row.is_accepted { TTL } else { OFFER };
            row.leased_at = row.leased_at.min(now);
            row.run_deadline = row.run_deadline.min(now + self.jobs[&at.0].max_run);
            row.expires_at = row.expires_at.map(|at| at.min(now + length));
            row.verify_until = row.verify_until.map(|until| until.min(latest));
        }
        Answer::Done
    }
}
