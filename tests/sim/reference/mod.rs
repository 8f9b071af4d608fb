//! The rules once more, as plainly as they can be said: one world in memory, one transaction at a
//! time, no SQL. What it decides by are the domain's own functions, as the store and the model do
//! ([`fencepost_domain::fencing::check`], [`fencepost_domain::ending::decide`] and their like); all
//! that the store has beside them (locks, snapshots, guarded writes) is missing here.
//!
//! The model that is explored whole has ticks for time and four attempts at most; here time is in
//! microseconds, so that every expiry, delay and count can be compared with the store's rows.

mod ends;
mod frames;
mod hello;
mod journal;
mod leasing;
mod time;

use std::collections::{BTreeMap, BTreeSet};

use ::time::{Duration as Span, OffsetDateTime};
use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::clock::ClockReading;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::job::JobStatus;

use crate::call::{Answer, Call, Key, Pair};

/// Where the clock stands when a list begins.
pub(crate) const BEGIN: OffsetDateTime = ::time::macros::datetime!(2026-01-01 12:00 UTC);
pub(crate) const TTL: Span = Span::seconds(60);
pub(crate) const OFFER: Span = Span::seconds(10);
pub(crate) const GRACE: Span = Span::seconds(15);
pub(crate) const TAKE_OVER: Span = Span::seconds(60);
/// Slots of each device.
pub(crate) const SLOTS: u32 = 3;

/// A job's row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobRow {
    pub(crate) status: JobStatus,
    pub(crate) epochs: i64,
    pub(crate) attempts: i32,
    pub(crate) charged: i32,
    pub(crate) returned: i32,
    pub(crate) is_in_queue: bool,
    pub(crate) wake_at: Option<OffsetDateTime>,
    pub(crate) failure: Option<FailureCode>,
    pub(crate) winner: Option<i32>,
    pub(crate) cancelled_at: Option<OffsetDateTime>,
    pub(crate) ended_at: Option<OffsetDateTime>,
    pub(crate) deadline: OffsetDateTime,
    /// Its place in the queue.
    pub(crate) order: OffsetDateTime,
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) row: JobRow,
    pub(crate) key: Option<(u8, u8)>,
    pub(crate) budget: i32,
    pub(crate) max_run: Span,
}

/// What the stored commit, fail or release was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Commit(u8),
    Fail(FailureCode),
    Release,
}

impl Said {
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Commit(_) => "commit",
            Self::Fail(_) => "fail",
            Self::Release => "release",
        }
    }
}

/// An attempt's row.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the row has")]
pub(crate) struct AttemptRow {
    pub(crate) device: usize,
    pub(crate) session: i64,
    pub(crate) status: AttemptStatus,
    pub(crate) is_accepted: bool,
    pub(crate) resumes: i32,
    pub(crate) percent: Option<u8>,
    pub(crate) lease: Pair,
    /// Compared while it is live.
    pub(crate) replaced: Option<Pair>,
    pub(crate) writer: Option<(&'static str, Pair)>,
    pub(crate) leased_at: OffsetDateTime,
    pub(crate) run_deadline: OffsetDateTime,
    pub(crate) expires_at: Option<OffsetDateTime>,
    pub(crate) pickup: i64,
    pub(crate) verify_since: Option<OffsetDateTime>,
    pub(crate) verify_until: Option<OffsetDateTime>,
    pub(crate) must_stop: bool,
    pub(crate) is_charged: bool,
    /// Whether its device gave the offer back.
    pub(crate) came_back: bool,
    pub(crate) failure: Option<FailureCode>,
    pub(crate) ended_at: Option<OffsetDateTime>,
}

#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) row: AttemptRow,
    /// In what order it was leased, over all jobs.
    pub(crate) order: usize,
    /// The epoch that it was leased with.
    pub(crate) first: i64,
    pub(crate) said: Option<Said>,
    /// Nobody knows the current secret: its device was paired again.
    pub(crate) is_kept: bool,
}

/// A device's row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeviceRow {
    pub(crate) is_enabled: bool,
    pub(crate) current: Option<i64>,
    pub(crate) void_through: i64,
    pub(crate) sessions: i64,
    pub(crate) is_connected: bool,
    pub(crate) supersedes: Vec<OffsetDateTime>,
    /// What was leased to it until then is not held against it.
    pub(crate) forgiven_at: Option<OffsetDateTime>,
    pub(crate) has_other_owner: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) row: DeviceRow,
    pub(crate) process: Option<u8>,
}

/// An event's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventRow {
    pub(crate) at: Key,
    pub(crate) writer: Pair,
    pub(crate) id: u8,
    pub(crate) content: u8,
}

/// All that is stored and compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    pub(crate) mark: OffsetDateTime,
    pub(crate) swept_at: OffsetDateTime,
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) jobs: BTreeMap<usize, JobRow>,
    pub(crate) attempts: BTreeMap<Key, AttemptRow>,
    pub(crate) events: BTreeSet<EventRow>,
}

/// The world of a list.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) now: OffsetDateTime,
    pub(crate) mark: OffsetDateTime,
    pub(crate) swept_at: OffsetDateTime,
    pub(crate) devices: Vec<Device>,
    pub(crate) jobs: BTreeMap<usize, Job>,
    pub(crate) attempts: BTreeMap<Key, Attempt>,
    pub(crate) events: BTreeSet<EventRow>,
    /// Jobs that a round leaves out, because somebody else holds their rows at that moment.
    pub(crate) held_by_others: BTreeSet<usize>,
}

impl Reference {
    /// Nothing submitted; devices that have never connected.
    pub(crate) fn new(devices: usize) -> Self {
        let device = Device {
            row: DeviceRow {
                is_enabled: true,
                current: None,
                void_through: 0,
                sessions: 0,
                is_connected: false,
                supersedes: Vec::new(),
                forgiven_at: None,
                has_other_owner: false,
            },
            process: None,
        };
        Self {
            now: BEGIN,
            mark: BEGIN,
            swept_at: BEGIN,
            devices: vec![device; devices],
            jobs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            events: BTreeSet::new(),
            held_by_others: BTreeSet::new(),
        }
    }

    pub(crate) fn view(&self) -> View {
        let attempt = |(at, attempt): (&Key, &Attempt)| {
            let mut row = attempt.row.clone();
            row.replaced = row.replaced.filter(|_| row.status.is_live());
            (*at, row)
        };
        View {
            mark: self.mark,
            swept_at: self.swept_at,
            devices: self.devices.iter().map(|one| one.row.clone()).collect(),
            jobs: (self.jobs.iter())
                .map(|(slot, job)| (*slot, job.row.clone()))
                .collect(),
            attempts: self.attempts.iter().map(attempt).collect(),
            events: self.events.clone(),
        }
    }

    /// One call takes place, all of it or nothing.
    pub(crate) fn apply(&mut self, call: &Call) -> Answer {
        match call {
            Call::Submit(request) => self.submit(request),
            Call::Round {
                device,
                session,
                slots,
            } => self.round(*device, *session, *slots),
            Call::Progress {
                claim,
                phase,
                percent,
            } => self.progress(claim, *phase, *percent),
            Call::Commit { claim, content } => self.commit(claim, *content),
            Call::End { claim, end } => self.end_by_agent(claim, *end),
            Call::TakeBack { claim, delivered } => self.take_back(claim, *delivered),
            Call::Settle {
                at,
                pickup,
                outcome,
            } => self.settle(*at, *pickup, *outcome),
            Call::RenewVerification { at, pickup } => self.renew_verification(*at, *pickup),
            Call::Cancel(slot) => self.cancel(*slot),
            Call::Hello {
                device,
                session,
                process,
                held,
            } => self.hello(*device, *session, *process, held),
            Call::Close { device, session } => self.close(*device, *session),
            Call::Sweep => self.sweep(),
            Call::Tend => self.tend(),
            Call::Advance(by) => self.move_clock(Span::try_from(*by).unwrap_or_default()),
            Call::GoBack(by) => self.move_clock(-Span::try_from(*by).unwrap_or_default()),
            Call::Mark => self.keep_mark(),
            Call::AcceptClock => self.accept_clock(),
            Call::PullBack => self.pull_back(),
            Call::Disable(device) => self.disable(*device),
            Call::Enable(device) => self.enable(*device),
            Call::Repair {
                device,
                other_owner,
            } => self.repair(*device, *other_owner),
            Call::Revoke(at) => self.revoke(*at),
            Call::Event { claim, id, content } => self.event(claim, *id, *content),
            Call::Grant(claim) => self.grant(claim),
        }
    }

    fn clock(&self) -> ClockReading {
        ClockReading {
            now: self.now,
            mark: self.mark,
        }
    }

    fn attempt(&mut self, at: Key) -> &mut Attempt {
        self.attempts
            .get_mut(&at)
            .expect("a call names what there is")
    }

    fn job(&mut self, slot: usize) -> &mut Job {
        self.jobs
            .get_mut(&slot)
            .expect("a call names what there is")
    }

    /// The attempts in the order in which they were leased that are as `wanted`.
    fn all(&self, wanted: impl Fn(&AttemptRow) -> bool) -> Vec<Key> {
        let found = self.attempts.iter().filter(|(_, one)| wanted(&one.row));
        found.map(|(at, _)| *at).collect()
    }
}
