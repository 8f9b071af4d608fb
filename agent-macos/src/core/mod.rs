//! What the agent decides: a state machine without sockets, files, processes or clocks.
//!
//! It lives as long as the process, across reconnects. Whoever drives it hands in what happened
//! (a frame, the end of a job, a tick of the clock, a socket gone) together with the time, and
//! carries out the [`Effect`]s that it takes out again, in order. That order is a promise: a lease
//! is on disk before it is presented, a last word before it is said.
//!
//! ```text
//! frame, job news, tick, close ──> Core ──> persist / forget / start / stop / send / reconnect
//! ```

mod drain;
mod effect;
mod frames;
mod held;
mod journal;
mod kept;
mod links;
mod refusals;
mod requests;
mod room;
mod settle;
mod timers;
mod welcome;
mod work;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use fencepost_domain::ids::{AttemptId, InstanceId, RequestId, SessionNumber};
use fencepost_domain::service::Capability;
use fencepost_protocol::{AgentEnvelope, AgentFrame, Intervals, LeaseRef};

use crate::clock::Moment;
use crate::lease::Lease;
use crate::outbox::LeaseRecord;
pub use effect::{Effect, FreshLink, JobOutcome, LinkAnswer, Wanted, Work};
use held::Held;
use kept::Kept;
use requests::{Kind, Requests};
pub(crate) use room::INPUTS_TIMES;
use room::Missing;
pub use room::Room;

/// Who this agent is; does not change while it runs.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Version of the agent.
    pub agent_version: String,
    /// This run of the process.
    pub instance_id: InstanceId,
    /// How many attempts at once.
    pub slots: u32,
    /// What it has proven.
    pub capabilities: Vec<Capability>,
}

/// Until a welcome says otherwise: the defaults of the contract.
pub const DEFAULT_INTERVALS: Intervals = Intervals {
    lease_ttl_ms: 60_000,
    renew_ms: 20_000,
    answer_ms: 10_000,
    heartbeat_ms: 15_000,
    dead_ms: 45_000,
    reconnect_max_ms: 5_000,
};

/// What stopping a job may take.
const MOST_TIME_TO_STOP_MS: u64 = 2_000;

/// How the session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// No socket.
    Down,
    /// `hello` is said; until `welcome`, nothing may be said about held attempts.
    Greeting {
        /// When to say hello again, after `busy`.
        again_at: Option<Moment>,
    },
    /// Current.
    Up,
}

/// The pull that stands at the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pull {
    /// What was asked for, and when.
    standing: Option<(u32, Moment)>,
    /// Not before this.
    not_before: Moment,
}

/// One attempt as `status` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldView {
    /// The lease.
    pub lease: LeaseRef,
    /// `offered`, a phase, or the last word that is not answered.
    pub doing: &'static str,
    /// How much of the phase is done.
    pub percent: Option<f32>,
}

/// The state machine.
#[derive(Debug)]
pub struct Core {
    identity: Identity,
    intervals: Intervals,
    link: Link,
    session: Option<SessionNumber>,
    held: BTreeMap<AttemptId, Held>,
    /// Attempts whose job has not ended yet, held or not. They take a slot.
    running: BTreeSet<AttemptId>,
    /// Attempts to answer with `stopped` once their job has ended.
    confirm: BTreeMap<AttemptId, LeaseRef>,
    requests: Requests,
    kept: Kept,
    pull: Pull,
    room: Room,
    missing: Option<Missing>,
    draining: bool,
    outdated: bool,
    last_heard: Moment,
    last_said: Moment,
    /// What the last frame about an attempt was about, to know what a 1009 was about.
    last_about: Option<AttemptId>,
    effects: Vec<Effect>,
}

impl Core {
    /// A core that takes up what an earlier run of the agent left in the outbox.
    pub fn new(identity: Identity, left: Vec<LeaseRecord>, now: Moment) -> Self {
        let mut core = Self {
            identity,
            intervals: DEFAULT_INTERVALS,
            link: Link::Down,
            session: None,
            held: BTreeMap::new(),
            running: BTreeSet::new(),
            confirm: BTreeMap::new(),
            requests: Requests::default(),
            kept: Kept::default(),
            pull: Pull {
                standing: None,
                not_before: now,
            },
            room: Room::default(),
            missing: None,
            draining: false,
            outdated: false,
            last_heard: now,
            last_said: now,
            last_about: None,
            effects: Vec::new(),
        };
        for record in left {
            let held = Held::recovered(record, now);
            core.effects.push(Effect::Persist(Box::new(held.record())));
            core.held.insert(held.attempt(), held);
        }
        core
    }

    /// What is to be done now, in this order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The longest wait before dialling again, if a lease is held.
    pub fn holding_max_ms(&self) -> Option<u64> {
        let holds = self.held.keys().any(|one| !self.is_handing_over(*one));
        holds.then_some(self.intervals.reconnect_max_ms)
    }

    /// Whether a job is being worked on, so that the Mac must not fall asleep.
    pub fn is_working(&self) -> bool {
        !self.running.is_empty()
    }

    /// The number of the current session.
    pub fn session(&self) -> Option<SessionNumber> {
        self.session.filter(|_| self.link == Link::Up)
    }

    /// Everything held, for `status`.
    pub fn view(&self) -> Vec<HeldView> {
        self.held.values().map(Held::view).collect()
    }

    /// A socket is open: says hello.
    pub fn on_connected(&mut self, now: Moment) {
        self.last_heard = now;
        self.link = Link::Greeting { again_at: None };
        self.say_hello(now);
    }

    /// The socket is gone; with it, every question that was not answered.
    pub fn on_disconnected(&mut self) {
        self.link = Link::Down;
        self.requests.clear();
        self.pull.standing = None;
        for held in self.held.values_mut() {
            held.on_disconnected();
        }
    }

    /// Sends a frame and remembers the question if somebody waits for its answer.
    fn send(&mut self, kind: Option<Kind>, frame: AgentFrame, now: Moment) {
        let request_id = RequestId::new();
        let lease = frame.lease();
        if let Some(lease) = lease {
            self.last_about = Some(lease.attempt_id);
        }
        if let Some(kind) = kind {
            self.requests.sent(request_id, kind, lease, now);
        }
        self.last_said = now;
        self.effects
            .push(Effect::Send(Box::new(AgentEnvelope { request_id, frame })));
    }

    /// The held attempt, if the frame names exactly the lease that we hold now.
    fn holding(&mut self, lease: LeaseRef) -> Option<&mut Held> {
        self.held
            .get_mut(&lease.attempt_id)
            .filter(|held| held.lease.reference() == lease)
    }

    /// Lets go of an attempt: nothing more is said about it but, if `confirm` is given, `stopped`.
    fn let_go(&mut self, attempt: AttemptId, confirm: Option<LeaseRef>, now: Moment) {
        let Some(held) = self.held.remove(&attempt) else {
            return;
        };
        self.requests.forget(attempt);
        self.effects.push(Effect::Forget(attempt));
        if self.running.contains(&attempt) {
            self.effects.push(Effect::StopJob(attempt));
            if let Some(lease) = confirm {
                self.confirm.insert(attempt, lease);
            }
        } else if let Some(lease) = confirm {
            self.say_stopped(lease, now);
        }
        drop(held);
        self.maybe_pull(now);
    }

    fn say_stopped(&mut self, lease: LeaseRef, now: Moment) {
        if self.link == Link::Up {
            self.send(None, AgentFrame::Stopped { lease }, now);
        }
    }

    /// Slots that nothing takes: neither a lease, nor a job that has not ended yet.
    fn slots_free(&self) -> u32 {
        let only_running = self
            .running
            .iter()
            .filter(|a| !self.held.contains_key(a))
            .count();
        let held = self.held.keys().filter(|one| !self.is_handing_over(**one));
        let taken = u32::try_from(held.count() + only_running).unwrap_or(u32::MAX);
        self.identity.slots.saturating_sub(taken)
    }

    /// Asks for work if there is room that was not asked for yet.
    fn maybe_pull(&mut self, now: Moment) {
        let slots_free = self.slots_free();
        let asked = self
            .pull
            .standing
            .is_some_and(|(slots, _)| slots == slots_free);
        let closed =
            self.link != Link::Up || self.draining || self.outdated || self.is_short_of_room();
        if closed || slots_free == 0 || asked || now < self.pull.not_before {
            return;
        }
        self.pull.standing = Some((slots_free, now));
        self.send(Some(Kind::Pull), AgentFrame::Pull { slots_free }, now);
    }

    /// When the work of a lease that ends then must begin to stop, so that its children are gone
    /// when the lease is: two seconds before, which is what stopping may take, but no more than a
    /// quarter of a lease.
    fn stop_at(&self, lease: &Lease) -> Moment {
        let margin_ms = MOST_TIME_TO_STOP_MS.min(self.intervals.lease_ttl_ms / 4);
        Moment::from_millis(lease.deadline().as_millis().saturating_sub(margin_ms))
    }

    /// The lease of a running job ends at another time than before.
    fn move_deadline(&mut self, attempt: AttemptId) {
        if let Some(held) = self.held.get(&attempt) {
            let stop_at = self.stop_at(&held.lease);
            self.effects.push(Effect::MoveDeadline(attempt, stop_at));
        }
    }

    fn persist(&mut self, attempt: AttemptId) {
        if let Some(held) = self.held.get(&attempt) {
            self.effects.push(Effect::Persist(Box::new(held.record())));
        }
    }
}
