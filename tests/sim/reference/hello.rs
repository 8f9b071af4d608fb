//! A device says hello, or goes away.

use fencepost_domain::clock::ClockReading;
use fencepost_domain::ending::Cause;
use fencepost_domain::fencing::Operation;
use fencepost_domain::job::JobStatus;
use fencepost_domain::supersede::{Supersede, judge};

use super::frames::lasting;
use super::{Reference, TTL};
use crate::call::{Answer, Claim, Ended, Key, Pair};

const MAX_RESUMES: i32 = 10;

impl Reference {
    /// A socket is opened; its session's number, unless the device is disabled.
    pub(crate) fn mint(&mut self, device: usize) -> Option<i64> {
        let row = &mut self.devices[device].row;
        row.is_enabled.then(|| {
            row.sessions += 1;
            row.sessions
        })
    }

    pub(super) fn close(&mut self, device: usize, session: i64) -> Answer {
        let row = &mut self.devices[device].row;
        if row.current != Some(session) {
            return Answer::No;
        }
        row.is_connected = false;
        Answer::Done
    }

    pub(super) fn hello(
        &mut self,
        device: usize,
        session: i64,
        process: u8,
        held: &[(Key, Pair)],
    ) -> Answer {
        let known = self.devices[device].clone();
        let current = known.row.current.unwrap_or(0);
        if !known.row.is_enabled || known.row.void_through >= session {
            return Answer::No;
        }
        if current > session {
            return Answer::Superseded;
        }
        if let Some(by) = ClockReading::regressed_by(self.clock()) {
            return Answer::Regressed(by);
        }
        let is_live = known.row.current.is_some() && known.row.is_connected;
        let mut supersedes = known.row.supersedes;
        if is_live && current < session && known.process != Some(process) {
            match judge(&supersedes, self.now) {
                Supersede::Remember(times) => supersedes = times,
                Supersede::TooOften => {
                    let Answer::Ended(ended) = self.disable(device) else {
                        unreachable!("a disabled device says what ended");
                    };
                    return Answer::InTwoPlaces(ended);
                }
            }
        }
        let known = &mut self.devices[device];
        known.process = Some(process);
        known.row.current = Some(session);
        known.row.is_connected = true;
        known.row.supersedes = supersedes;
        self.reconcile(device, session, held)
    }

    fn reconcile(&mut self, device: usize, session: i64, held: &[(Key, Pair)]) -> Answer {
        let (mut resumed, mut recorded, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let older = self.all(|row| {
            row.device == device && row.status.is_held_by_agent() && row.session < session
        });
        for &(at, pair) in held {
            let row = &self.attempts[&at].row;
            if row.device == device && row.writer.is_some_and(|(_, writer)| writer == pair) {
                recorded.push((at, row.status));
            } else if self.is_resumable(device, at, pair) {
                resumed.push(self.rotate(at, pair, session));
            } else {
                lost.push(at);
            }
        }
        let mut ended = Vec::new();
        for at in older {
            if !resumed.iter().any(|(kept, ..)| *kept == at) {
                ended.push(self.end_left_over(at));
            }
        }
        Answer::Welcome {
            resumed,
            recorded,
            lost,
            ended,
        }
    }

    fn is_resumable(&self, device: usize, at: Key, pair: Pair) -> bool {
        let row = &self.attempts[&at].row;
        let is_again = row.replaced == Some(pair) && row.status.is_live();
        let mut claimed = row.clone();
        if is_again {
            claimed.lease = pair;
        }
        let claim = Claim {
            at,
            pair,
            stranger: row.device != device,
        };
        self.fenced(&claimed, &claim, Operation::Release).is_ok()
            && self.jobs[&at.0].row.status == JobStatus::Active
            && (is_again || row.resumes < MAX_RESUMES)
    }

    fn rotate(&mut self, at: Key, pair: Pair, session: i64) -> (Key, i64, std::time::Duration) {
        let now = self.now;
        let job = self.job(at.0);
        job.row.epochs += 1;
        let epoch = job.row.epochs;
        let attempt = self.attempt(at);
        attempt.is_kept = false;
        let row = &mut attempt.row;
        let is_again = row.replaced == Some(pair);
        let stored = lasting(row, now);
        let renewed = (now + TTL).min(row.run_deadline).max(stored);
        let expires_at = if is_again && stored > now {
            stored
        } else {
            renewed
        };
        row.resumes += i32::from(!is_again);
        row.replaced = Some(pair);
        row.lease = Pair::minted(epoch);
        row.session = session;
        row.is_accepted = true;
        row.expires_at = Some(expires_at);
        (at, epoch, (expires_at - now).unsigned_abs())
    }

    fn end_left_over(&mut self, at: Key) -> Ended {
        let row = &self.attempts[&at].row;
        let is_over = row
            .expires_at
            .is_none_or(|expires_at| expires_at <= self.now);
        let cause = match (row.is_accepted, is_over) {
            (false, _) => Cause::Returned,
            (true, true) => Cause::Expired,
            (true, false) if row.resumes >= MAX_RESUMES => Cause::ResumeBound,
            (true, false) => Cause::Forgotten,
        };
        self.end(at, cause)
    }
}
