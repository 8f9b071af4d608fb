//! What waits, and who gets it.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::device_health::{Blame, LOOK_BACK, PastAttempt, judge};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::{DeviceId, JobId, OrgId};
use fencepost_domain::job::JobStatus;
use fencepost_domain::matcher::{Candidate, DeviceRoom, OrgRoom, assign};
use time::Duration as Span;
use uuid::Uuid;

use super::{Attempt, AttemptRow, Job, JobRow, OFFER, Reference, SLOTS};
use crate::call::{Answer, Key, Pair, Request};

const BARRED: Span = Span::minutes(5);
const QUICKLY: Span = Span::minutes(1);

impl Reference {
    pub(super) fn submit(&mut self, request: &Request) -> Answer {
        let same_key = |job: &Job| job.key.zip(request.key).is_some_and(|(a, b)| a.0 == b.0);
        if let Some((slot, job)) = self.jobs.iter().find(|(_, job)| same_key(job)) {
            return if job.key == request.key {
                Answer::SameJob(*slot)
            } else {
                Answer::KeyReused
            };
        }
        let job = Job {
            row: JobRow {
                status: JobStatus::Queued,
                epochs: 0,
                attempts: 0,
                charged: 0,
                returned: 0,
                is_in_queue: true,
                wake_at: None,
                failure: None,
                winner: None,
                cancelled_at: None,
                ended_at: None,
                deadline: self.now + request.deadline,
                order: self.now,
            },
            key: request.key,
            budget: request.budget,
            max_run: Span::try_from(request.max_run).unwrap_or_default(),
        };
        self.jobs.insert(request.slot, job);
        Answer::Submitted
    }

    pub(super) fn round(&mut self, device: usize, session: i64, slots: u32) -> Answer {
        let known = &self.devices[device].row;
        let is_current = known.current == Some(session) && known.is_enabled;
        let waits = self.jobs.values().any(|job| job.row.is_in_queue);
        if let Some(by) = self.clock().regressed_by() {
            return Answer::Regressed(by);
        }
        if !is_current || !waits {
            return Answer::Leased(Vec::new());
        }
        let chosen = self.candidates(slots as usize * 2);
        let live = |row: &AttemptRow| row.status.is_live();
        let busy = self.all(|row| live(row) && row.device == device).len();
        let free = (SLOTS as usize).saturating_sub(busy).min(slots as usize);
        let is_closed = judge(&self.past(device)).is_closed(self.now);
        let room = DeviceRoom {
            device: device_id(device),
            free: if is_closed { 0 } else { free },
            words: [String::new()].into(),
        };
        let org = OrgRoom {
            org: OrgId(Uuid::nil()),
            live: i64::try_from(self.all(live).len()).unwrap_or(i64::MAX),
            limit: None,
        };
        let assigned = assign(vec![room], &chosen, &[org]);
        let mut leased: Vec<_> = (assigned.iter())
            .map(|one| (self.lease(one.job, device, session), device))
            .collect();
        leased.sort_unstable();
        Answer::Leased(leased)
    }

    /// The first of those that wait, with the devices that they must not, or should not, go to.
    fn candidates(&self, most: usize) -> Vec<Candidate> {
        let mut waiting: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.row.is_in_queue)
            .map(|(slot, job)| (job.row.order, *slot))
            .collect();
        waiting.sort_unstable();
        waiting.truncate(most);
        let may_start = |(_, slot): &(_, usize)| {
            self.jobs[slot].row.deadline > self.now && !self.held_by_others.contains(slot)
        };
        let candidate = |(_, slot): (_, usize)| {
            let devices = |wanted: &dyn Fn(&Attempt) -> bool| {
                let mine = self.attempts.iter().filter(|(at, _)| at.0 == slot);
                let found = mine.filter(|(_, attempt)| wanted(attempt));
                found
                    .map(|(_, attempt)| device_id(attempt.row.device))
                    .collect()
            };
            let now = self.now;
            Candidate {
                job: JobId(Uuid::from_u128(slot as u128)),
                org: OrgId(Uuid::nil()),
                lane: String::new(),
                barred: devices(&|attempt| {
                    attempt.row.came_back
                        && (attempt.row.ended_at).is_some_and(|at| at > now - BARRED && at <= now)
                }),
                shunned: devices(&|attempt| attempt.row.is_charged),
            }
        };
        waiting
            .into_iter()
            .filter(may_start)
            .map(candidate)
            .collect()
    }

    /// How a device's last attempts ended, newest first.
    fn past(&self, device: usize) -> Vec<PastAttempt> {
        let mut mine: Vec<&Attempt> = self.attempts.values().collect();
        let forgiven = self.devices[device].row.forgiven_at;
        mine.retain(|attempt| {
            let is_held_against = forgiven.is_none_or(|at| attempt.row.leased_at > at);
            attempt.row.device == device && is_held_against
        });
        mine.sort_unstable_by_key(|attempt| std::cmp::Reverse(attempt.order));
        let now = self.now;
        let judged = mine.into_iter().take(LOOK_BACK).map(|attempt| PastAttempt {
            ended_at: attempt.row.ended_at,
            blame: blame(attempt),
        });
        judged
            .filter(|past| past.ended_at.is_none_or(|ended_at| ended_at <= now))
            .collect()
    }

    fn lease(&mut self, job: JobId, device: usize, session: i64) -> Key {
        let (now, order) = (self.now, self.attempts.len());
        let slot = usize::try_from(job.0.as_u128()).expect("it was made from one");
        let job = self.job(slot);
        job.row.status = JobStatus::Active;
        job.row.is_in_queue = false;
        job.row.epochs += 1;
        job.row.attempts += 1;
        let (epoch, max_run) = (job.row.epochs, job.max_run);
        let at = (slot, job.row.attempts);
        let row = AttemptRow {
            device,
            session,
            status: AttemptStatus::Leased,
            is_accepted: false,
            resumes: 0,
            percent: None,
            lease: Pair::minted(epoch),
            replaced: None,
            writer: None,
            leased_at: now,
            run_deadline: now + max_run,
            expires_at: Some(now + OFFER.min(max_run)),
            pickup: 0,
            verify_since: None,
            verify_until: None,
            must_stop: false,
            is_charged: false,
            came_back: false,
            failure: None,
            ended_at: None,
        };
        let attempt = Attempt {
            row,
            order,
            first: epoch,
            said: None,
            is_kept: false,
        };
        self.attempts.insert(at, attempt);
        at
    }
}

fn device_id(device: usize) -> DeviceId {
    DeviceId(Uuid::from_u128(device as u128))
}

fn blame(attempt: &Attempt) -> Blame {
    let row = &attempt.row;
    let quickly = |ended_at| ended_at < row.leased_at + QUICKLY;
    if attempt.row.came_back {
        Blame::Returned
    } else if row.failure == Some(FailureCode::DeviceFault)
        || row.is_charged && row.ended_at.is_some_and(quickly)
    {
        Blame::Failed
    } else {
        Blame::None
    }
}
