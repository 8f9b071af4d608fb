//! How attempts and jobs end, and what a buyer and an operator do.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::{Back, Cause, Ending, JobFacts, JobNext, decide};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::job::JobStatus;
use time::Duration as Span;

use super::{AttemptRow, Job, Reference};
use crate::call::{Answer, Ended, Key, Outcome, Pair, UNTOLD};

const MAX_PICKUPS: i64 = 5;
const MAX_VERIFICATION_TIME: Span = Span::HOUR;
/// After the first trouble; four times as long after each further one.
const RETRY_AFTER: Span = Span::seconds(5);

impl Reference {
    /// Ends a live attempt, and moves its job.
    pub(super) fn end(&mut self, at: Key, cause: Cause) -> Ended {
        let facts = facts(&self.jobs[&at.0]);
        let ending = decide(&facts, cause, self.now);
        self.write_end(at, &ending)
    }

    fn write_end(&mut self, at: Key, ending: &Ending) -> Ended {
        let now = self.now;
        let job = self.job(at.0);
        job.row.charged += i32::from(ending.charged);
        job.row.returned += i32::from(ending.back.is_some());
        job.row.epochs += i64::from(ending.forced);
        let epochs = job.row.epochs;
        self.move_job(at.0, ending.job);
        if ending.job == JobNext::Succeeded {
            self.job(at.0).row.winner = Some(at.1);
        }
        let row = &mut self.attempt(at).row;
        row.came_back = ending.back == Some(Back::Offer);
        row.status = ending.attempt;
        row.ended_at = Some(now);
        (row.expires_at, row.verify_until) = (None, None);
        row.is_charged = ending.charged;
        row.failure = ending.code;
        row.is_accepted |= ending.attempt == AttemptStatus::Failed;
        if ending.forced {
            row.lease.epoch = epochs;
        }
        let status = ending.attempt;
        Ended { at, status }
    }

    pub(super) fn move_job(&mut self, slot: usize, next: JobNext) {
        let now = self.now;
        let row = &mut self.job(slot).row;
        row.status = next.status();
        (row.is_in_queue, row.wake_at) = (false, None);
        match next {
            JobNext::Queued { delay } if delay.is_zero() => row.is_in_queue = true,
            JobNext::Queued { delay } => row.wake_at = Some(now + delay),
            JobNext::Failed(code) => row.failure = Some(code),
            JobNext::Cancelled => row.cancelled_at = row.cancelled_at.or(Some(now)),
            JobNext::Succeeded => {}
        }
        if next.status().is_terminal() {
            row.ended_at = Some(now);
        }
    }

    /// The answer to whoever is told of an end.
    pub(super) fn as_final(&self, at: Key, replayed: bool) -> Answer {
        let row = &self.attempts[&at].row;
        let status = row.status;
        Answer::Final {
            ended: Ended { at, status },
            job: self.jobs[&at.0].row.status,
            code: row.failure,
            replayed,
        }
    }

    pub(super) fn cancel(&mut self, slot: usize) -> Answer {
        let Some(job) = self.jobs.get(&slot) else {
            return Answer::No;
        };
        let mut answer = (job.row.status, false, false, false);
        match job.row.status {
            JobStatus::Queued => {
                self.move_job(slot, JobNext::Cancelled);
                answer = (JobStatus::Cancelled, true, false, false);
            }
            JobStatus::Active | JobStatus::Verifying => {
                let now = self.now;
                let row = &mut self.job(slot).row;
                row.status = JobStatus::Cancelling;
                row.cancelled_at = Some(now);
                let live = self.all(|row| row.status.is_live());
                let at = live.into_iter().find(|at| at.0 == slot);
                let at = at.expect("an active job has a live attempt");
                self.attempt(at).row.must_stop = true;
                let is_offer = is_unaccepted(&self.attempts[&at].row);
                if is_offer {
                    self.end(at, Cause::CancelForced);
                }
                let status = self.jobs[&slot].row.status;
                answer = (status, true, is_offer, !is_offer);
            }
            JobStatus::Cancelling
            | JobStatus::Succeeded
            | JobStatus::Failed
            | JobStatus::Cancelled => {}
        }
        let (status, changed, ended, stopping) = answer;
        Answer::Cancelled {
            status,
            changed,
            ended,
            stopping,
        }
    }

    pub(super) fn take_back(&mut self, claim: &crate::call::Claim, delivered: bool) -> Answer {
        let row = &self.attempts[&claim.at].row;
        let status = row.status;
        if claim.stranger || row.lease.epoch != claim.pair.epoch {
            return Answer::Ended(Vec::new());
        }
        let cause = if delivered {
            Cause::Returned
        } else {
            Cause::Undelivered
        };
        let at = claim.at;
        Answer::Ended(if is_unaccepted(row) {
            vec![self.end(at, cause)]
        } else if status.is_live() {
            Vec::new()
        } else {
            vec![Ended { at, status }]
        })
    }

    pub(super) fn settle(&mut self, at: Key, pickup: i64, outcome: Outcome) -> Answer {
        let row = &self.attempts[&at].row;
        if row.status != AttemptStatus::Committing || row.pickup != pickup {
            return if row.status.is_live() {
                Answer::TakenOver
            } else {
                self.as_final(at, false)
            };
        }
        let is_last = self.is_last_try(at) || self.jobs[&at.0].row.status == JobStatus::Cancelling;
        let cause = match outcome {
            Outcome::Good => Cause::Verified,
            Outcome::MediaRejected => Cause::MediaRejected,
            Outcome::BytesDiffer => Cause::BytesDiffer,
            Outcome::Trouble if is_last => Cause::VerificationTrouble,
            Outcome::Trouble => {
                let pause = RETRY_AFTER
                    * 4_i32.pow(u32::try_from(pickup - 1).expect("pick-ups are counted from 1"));
                self.attempt(at).row.verify_until = Some(self.now + pause);
                return Answer::Later;
            }
        };
        self.end(at, cause);
        self.as_final(at, false)
    }

    /// Whether our trouble with a verification is not tried again.
    pub(super) fn is_last_try(&self, at: Key) -> bool {
        let row = &self.attempts[&at].row;
        let since = row.verify_since.unwrap_or(self.now);
        row.pickup >= MAX_PICKUPS || self.now - since >= MAX_VERIFICATION_TIME
    }

    pub(super) fn revoke(&mut self, at: Key) -> Answer {
        let was_live = self.attempts[&at].row.status.is_live();
        if was_live {
            self.end(at, Cause::Revoked);
        }
        self.as_final(at, !was_live)
    }

    pub(super) fn disable(&mut self, device: usize) -> Answer {
        self.void_sessions(device);
        self.devices[device].row.is_enabled = false;
        Answer::Ended(self.revoke_leases_of(device))
    }

    pub(super) fn enable(&mut self, device: usize) -> Answer {
        let row = &mut self.devices[device].row;
        row.is_enabled = true;
        row.forgiven_at = Some(self.now);
        Answer::Done
    }

    pub(super) fn void_sessions(&mut self, device: usize) {
        let row = &mut self.devices[device].row;
        row.current = None;
        row.is_connected = false;
        row.void_through = row.sessions;
        row.supersedes.clear();
    }

    pub(super) fn revoke_leases_of(&mut self, device: usize) -> Vec<Ended> {
        let held = self.all(|row| row.device == device && row.status.is_held_by_agent());
        let ended = held.into_iter().map(|at| self.end(at, Cause::Revoked));
        ended.collect()
    }

    pub(super) fn repair(&mut self, device: usize, other_owner: bool) -> Answer {
        if !self.devices[device].row.is_enabled {
            return Answer::No;
        }
        if self.devices[device].row.has_other_owner == other_owner {
            self.keep_for_hello(device);
        } else {
            self.revoke_leases_of(device);
        }
        self.void_sessions(device);
        self.devices[device].row.has_other_owner = other_owner;
        Answer::Done
    }

    /// No frame is right any more, but the pair that its agent has still is for a hello.
    fn keep_for_hello(&mut self, device: usize) {
        for at in self.all(|row| row.device == device && row.status.is_held_by_agent()) {
            let attempt = &self.attempts[&at];
            let has_run_out = attempt.row.expires_at <= Some(self.now.max(self.mark));
            // One that was kept before still waits for its hello.
            if attempt.is_kept || has_run_out {
                continue;
            }
            let job = self.job(at.0);
            job.row.epochs += 1;
            let lease = Pair {
                epoch: job.row.epochs,
                token: UNTOLD,
            };
            let attempt = self.attempt(at);
            attempt.row.replaced = Some(attempt.row.lease);
            attempt.row.lease = lease;
            attempt.is_kept = true;
        }
    }
}

fn facts(job: &Job) -> JobFacts {
    JobFacts {
        status: job.row.status,
        max_attempts: job.budget,
        charged_attempts: job.row.charged,
        returned_offers: job.row.returned,
        // No list is long enough for an undeliverable job.
        returned_widely: false,
        admission_deadline: job.row.deadline,
    }
}

pub(super) fn is_unaccepted(row: &AttemptRow) -> bool {
    row.status == AttemptStatus::Leased && !row.is_accepted
}

impl Reference {
    pub(super) fn tend(&mut self) -> Answer {
        let (mut woken, mut overdue) = (0, 0);
        let slots: Vec<usize> = self.jobs.keys().copied().collect();
        for slot in slots {
            let now = self.now;
            let job = self.job(slot);
            if job.row.status != JobStatus::Queued {
                continue;
            }
            if job.row.deadline <= now {
                self.move_job(slot, JobNext::Failed(FailureCode::DeadlineExceeded));
                overdue += 1;
            } else if job.row.wake_at.is_some_and(|at| at <= now) {
                (job.row.is_in_queue, job.row.wake_at) = (true, None);
                woken += 1;
            }
        }
        Answer::Tended { woken, overdue }
    }
}
