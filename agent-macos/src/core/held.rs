//! One attempt that the agent holds.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::AttemptId;
use fencepost_protocol::LeaseOffer;

use super::room::bytes_needed;
use super::{HeldView, Work};
use crate::clock::Moment;
use crate::lease::Lease;
use crate::outbox::{LeaseRecord, Pending, PendingEvent};

/// A lease and what is being done about it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lease: Lease,
    object_key: String,
    bytes_needed: u64,
    phase: Phase,
    pub(super) state: State,
    pub(super) renewal: Renewal,
    /// Journal entries that are not answered, and the number of the next.
    pub(super) events: Vec<PendingEvent>,
    pub(super) next_seq: i64,
    /// Say them again then.
    pub(super) events_again_at: Option<Moment>,
    /// Until then the last word waits for them.
    pub(super) events_first_until: Option<Moment>,
}

/// What is being done.
#[derive(Debug)]
pub(super) enum State {
    /// Accepted by us, not yet confirmed.
    Offered {
        /// What to do then.
        work: Box<Work>,
        /// When to accept again, after `busy`.
        again_at: Option<Moment>,
    },
    /// A job is running.
    Working {
        /// How much of the phase is done.
        percent: Option<f32>,
        /// Handed back once the job has ended, for this reason.
        release: Option<String>,
    },
    /// The last word is said, or will be as soon as it can be.
    Settling(Settling),
}

/// A last word.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) pending: Pending,
    /// When it was said on this socket.
    pub(super) said: Option<Moment>,
    /// Not again before this.
    pub(super) again_at: Option<Moment>,
}

/// What was reported last; every report renews.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    pub(super) sent: Option<Moment>,
    pub(super) phase: Option<Phase>,
    pub(super) percent: Option<f32>,
    /// Not again before this.
    pub(super) again_at: Option<Moment>,
}

impl Held {
    /// An offer that is being accepted. Its end is the accept deadline.
    pub(super) fn offered(offer: &LeaseOffer, now: Moment) -> Self {
        let deadline = now.after_millis(offer.lease_remaining_ms);
        let work = Box::new(Work::from(offer));
        Self {
            lease: Lease::new(offer.lease(), offer.commit_token.clone(), deadline),
            object_key: offer.output.object_key.clone(),
            bytes_needed: bytes_needed(offer),
            phase: Phase::Leased,
            state: State::Offered {
                work,
                again_at: None,
            },
            renewal: Renewal::default(),
            events: Vec::new(),
            next_seq: 0,
            events_again_at: None,
            events_first_until: None,
        }
    }

    /// What an earlier run left. Its work is gone, so a record without a last word is handed back.
    pub(super) fn recovered(record: LeaseRecord, now: Moment) -> Self {
        let reason = || "the agent was restarted and its work is gone".to_owned();
        let pending = record
            .pending
            .clone()
            .unwrap_or_else(|| Pending::Release { reason: reason() });
        let next_seq = record.events.iter().map(|event| event.seq + 1).max();
        Self {
            lease: Lease::new(record.lease(), record.commit_token.clone(), now),
            object_key: record.object_key,
            bytes_needed: 0,
            phase: record.phase,
            state: State::Settling(Settling::new(pending)),
            renewal: Renewal::default(),
            events: record.events,
            next_seq: next_seq.unwrap_or(0),
            events_again_at: None,
            events_first_until: None,
        }
    }

    pub(super) fn attempt(&self) -> AttemptId {
        self.lease.reference().attempt_id
    }

    /// What its work may take on the disk, in bytes; nothing once the work has ended.
    pub(super) fn bytes_needed(&self) -> u64 {
        match &self.state {
            State::Offered { .. } | State::Working { .. } => self.bytes_needed,
            State::Settling(_) => 0,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Phases only move forward; answers whether this one did.
    pub(super) fn advance(&mut self, phase: Phase) -> bool {
        let forward = phase > self.phase;
        self.phase = self.phase.max(phase);
        forward
    }

    /// As it goes to disk.
    pub(super) fn record(&self) -> LeaseRecord {
        let lease = self.lease.reference();
        let pending = match &self.state {
            State::Settling(settling) => Some(settling.pending.clone()),
            State::Offered { .. } | State::Working { .. } => None,
        };
        LeaseRecord {
            job_id: lease.job_id,
            attempt_id: lease.attempt_id,
            lease_epoch: lease.lease_epoch,
            commit_token: self.lease.token().clone(),
            object_key: self.object_key.clone(),
            phase: self.phase,
            events: self.events.clone(),
            pending,
        }
    }

    /// Whether the last word still waits for events.
    pub(super) fn waits_for_events(&self, now: Moment) -> bool {
        !self.events.is_empty() && self.events_first_until.is_some_and(|until| now < until)
    }

    /// Whether work that has not ended depends on the lease being live. A last word does not: its
    /// answer may be stored.
    pub(super) fn is_bound_by_deadline(&self) -> bool {
        match &self.state {
            State::Offered { .. } | State::Working { .. } => true,
            State::Settling(_) => false,
        }
    }

    /// The next socket starts with a clean sheet.
    pub(super) fn on_disconnected(&mut self) {
        self.renewal.sent = None;
        self.renewal.again_at = None;
        self.events_again_at = None;
        self.events_first_until = None;
        match &mut self.state {
            State::Settling(settling) => {
                settling.said = None;
                settling.again_at = None;
            }
            State::Offered { again_at, .. } => *again_at = None,
            State::Working { .. } => {}
        }
    }

    pub(super) fn view(&self) -> HeldView {
        let (doing, percent) = match &self.state {
            State::Offered { .. } => ("offered", None),
            State::Working { percent, .. } => (phase_word(self.phase), *percent),
            State::Settling(settling) => (pending_word(&settling.pending), None),
        };
        HeldView {
            lease: self.lease.reference(),
            doing,
            percent,
        }
    }
}

impl Settling {
    pub(super) fn new(pending: Pending) -> Self {
        Self {
            pending,
            said: None,
            again_at: None,
        }
    }
}

fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Leased => "leased",
        Phase::Downloading => "downloading",
        Phase::Running => "running",
        Phase::Uploading => "uploading",
    }
}

fn pending_word(pending: &Pending) -> &'static str {
    match pending {
        Pending::Commit { .. } => "committing",
        Pending::Fail { .. } => "reporting a failure",
        Pending::Release { .. } => "handing back",
        Pending::Retain { .. } => "handing over what is left",
    }
}
