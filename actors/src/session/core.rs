//! A session without sockets: frames and facts in, effects out.
//!
//! The actor around it does what it says. Nothing here waits, so "reply first, then release the
//! slot, in one turn" is the order of two lines.

use std::collections::{BTreeSet, HashMap, HashSet};

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{AttemptId, DeviceId, RequestId, SessionNumber};
use fencepost_protocol::{
    AgentEnvelope, AgentFrame, Code, GatewayEnvelope, GatewayFrame, Hello, LeaseRef, close,
};
use fencepost_store::FinalizedAttempt;
use fencepost_store::tx::cancel_job::Stopping;
use fencepost_store::views::SessionView;

use super::answers::{rejected, to_commit};
use super::asking::operation;
use super::lanes::{Admission, Lanes, Operation};
use super::slots::SlotTable;
use crate::messages::CommitProgress;

/// Something for the actor to do, in order.
#[derive(Debug)]
pub(super) enum Effect {
    /// Write a frame.
    Send(Box<GatewayEnvelope>),
    /// Make the session current.
    Greet(RequestId, Box<Hello>),
    /// Ask for work.
    Pull(u32),
    /// Record that the device has deleted what it kept.
    Reaped(RequestId, String),
    /// Write something about an attempt.
    Run(Box<Operation>),
    /// Ask for the proof that these have ended.
    ProveEnded(Vec<AttemptId>),
    /// There is room again: match.
    Nudge,
    /// End the session.
    Close(u16, &'static str),
}

/// How far the session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Greeting,
    Current,
}

/// The state of one session.
#[derive(Debug)]
pub(super) struct SessionCore {
    device: DeviceId,
    session: SessionNumber,
    state: State,
    slots: SlotTable,
    lanes: Lanes,
    /// Offers that were sent and not accepted.
    offered: HashMap<AttemptId, LeaseClaim>,
    /// Commits to answer when the attempt has ended.
    commits: HashMap<AttemptId, (RequestId, LeaseRef)>,
    /// Attempts that were told to stop by a push.
    stopped: HashSet<AttemptId>,
    draining: bool,
}

impl SessionCore {
    /// A session that has not said hello.
    pub(super) fn new(device: DeviceId, session: SessionNumber) -> Self {
        Self {
            device,
            session,
            state: State::New,
            slots: SlotTable::default(),
            lanes: Lanes::default(),
            offered: HashMap::new(),
            commits: HashMap::new(),
            stopped: HashSet::new(),
            draining: false,
        }
    }

    /// Whether the session said hello and was welcomed.
    pub(super) fn is_current(&self) -> bool {
        self.state == State::Current
    }

    /// The agent gave an offer back itself: it need not be told that it is gone.
    pub(super) fn gave_back(&mut self, attempt: AttemptId) {
        if self.slots.lease_of(attempt).is_some() {
            self.stopped.insert(attempt);
        }
    }

    /// Whether the session holds this very lease.
    pub(super) fn holds(&self, lease: LeaseRef) -> bool {
        self.slots.lease_of(lease.attempt_id) == Some(lease)
    }

    /// Offers that nobody has accepted, to be returned when the socket goes.
    pub(super) fn unaccepted(&self) -> Vec<LeaseClaim> {
        self.offered.values().copied().collect()
    }

    /// The session was welcomed.
    pub(super) fn welcomed(&mut self) {
        self.state = State::Current;
    }

    /// The hello could not be answered; it may be said again.
    pub(super) fn not_welcomed(&mut self) {
        self.state = State::New;
    }

    /// A frame came.
    pub(super) fn on_frame(&mut self, envelope: AgentEnvelope) -> Vec<Effect> {
        let AgentEnvelope { request_id, frame } = envelope;
        match (self.state, frame) {
            (_, AgentFrame::Heartbeat) => Vec::new(),
            (State::New, AgentFrame::Hello(hello)) => self.greet(request_id, hello),
            (State::New | State::Greeting, frame) => {
                let answer = rejected(Code::InvalidRequest, Some("say hello first"));
                vec![send(Some(request_id), frame.lease(), answer)]
            }
            (State::Current, frame) => self.on_open_frame(request_id, frame),
        }
    }

    fn greet(&mut self, request_id: RequestId, hello: Hello) -> Vec<Effect> {
        if hello.protocol < fencepost_protocol::PROTOCOL {
            return vec![
                send(Some(request_id), None, GatewayFrame::UpgradeRequired),
                Effect::Close(close::UPGRADE, "the agent is too old"),
            ];
        }
        self.state = State::Greeting;
        vec![Effect::Greet(request_id, Box::new(hello))]
    }

    fn on_open_frame(&mut self, request_id: RequestId, frame: AgentFrame) -> Vec<Effect> {
        let Some(lease) = frame.lease() else {
            return self.on_session_frame(request_id, frame);
        };
        let kind = match operation(frame, lease.claimed_by(self.device)) {
            Ok(kind) => kind,
            Err(problem) => {
                let answer = rejected(Code::InvalidRequest, Some(problem));
                return vec![send(Some(request_id), Some(lease), answer)];
            }
        };
        let operation = Operation {
            requests: vec![request_id],
            lease,
            kind,
        };
        match self.lanes.admit(operation) {
            Admission::Run(operation) => vec![Effect::Run(operation)],
            Admission::Waits => Vec::new(),
            Admission::Full => {
                let answer = GatewayFrame::Busy {
                    retry_after_ms: 1_000,
                };
                vec![send(Some(request_id), Some(lease), answer)]
            }
        }
    }

    fn on_session_frame(&mut self, request_id: RequestId, frame: AgentFrame) -> Vec<Effect> {
        match frame {
            AgentFrame::Pull { slots_free } if !self.draining => vec![Effect::Pull(slots_free)],
            AgentFrame::Pull { .. } => vec![send(Some(request_id), None, GatewayFrame::NoWork)],
            AgentFrame::Reaped { handle } => vec![Effect::Reaped(request_id, handle)],
            AgentFrame::Drain { .. } => {
                self.draining = true;
                vec![
                    Effect::Pull(0),
                    send(Some(request_id), None, GatewayFrame::DrainAck),
                ]
            }
            _ => {
                let answer = rejected(Code::InvalidRequest, Some("the session said hello already"));
                vec![send(Some(request_id), None, answer)]
            }
        }
    }

    /// A lease was granted; its offer is about to be written.
    pub(super) fn on_offer(&mut self, claim: LeaseClaim) {
        let lease = LeaseRef {
            job_id: claim.job,
            attempt_id: claim.attempt,
            lease_epoch: claim.epoch,
        };
        self.slots.hold(claim.attempt, Some(lease));
        self.offered.insert(claim.attempt, claim);
    }

    /// An operation was answered with these frames; the next of its lane may run.
    pub(super) fn on_answered(
        &mut self,
        operation: &Operation,
        frame: &GatewayFrame,
    ) -> Vec<Effect> {
        let accepted = matches!(
            frame,
            GatewayFrame::ProgressOk { .. }
                | GatewayFrame::Done {
                    lease_remaining_ms: Some(_),
                    ..
                }
        );
        if accepted {
            self.offered.remove(&operation.lease.attempt_id);
        }
        let mut effects: Vec<_> = operation
            .requests
            .iter()
            .map(|request| send(Some(*request), Some(operation.lease), frame.clone()))
            .collect();
        effects.extend(self.next_of(operation.lease.attempt_id));
        effects
    }

    /// A commit goes on. While it is verified, its lane is free for others (and for its repeats).
    pub(super) fn on_commit_progress(
        &mut self,
        request_id: RequestId,
        lease: LeaseRef,
        progress: CommitProgress,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        let answer = match progress {
            CommitProgress::Verifying => {
                self.commits.insert(lease.attempt_id, (request_id, lease));
                None
            }
            CommitProgress::StillVerifying => Some(rejected(Code::Verifying, None)),
            CommitProgress::Final { end, replayed } => {
                effects.push(send(
                    Some(request_id),
                    Some(lease),
                    to_commit(&end, replayed),
                ));
                effects.extend(self.release(&end));
                None
            }
            CommitProgress::Refused(refusal) => Some(super::answers::refused(
                fencepost_domain::fencing::Operation::Commit,
                refusal,
            )),
            CommitProgress::Trouble => Some(super::answers::trouble()),
        };
        effects.extend(answer.map(|frame| send(Some(request_id), Some(lease), frame)));
        effects.extend(self.next_of(lease.attempt_id));
        effects
    }

    /// An attempt's end is durable: reply first, then release, in this one turn.
    pub(super) fn on_finalized(&mut self, end: &FinalizedAttempt) -> Vec<Effect> {
        let told = match self.commits.remove(&end.attempt()) {
            Some((request_id, lease)) => {
                Some(send(Some(request_id), Some(lease), to_commit(end, false)))
            }
            None => self.tell_lost(end),
        };
        told.into_iter().chain(self.release(end)).collect()
    }

    /// A lease that was taken away (an operator's word, or time) is told at once: its agent would
    /// otherwise work on until its next renewal is refused.
    fn tell_lost(&self, end: &FinalizedAttempt) -> Option<Effect> {
        let lease = self.slots.lease_of(end.attempt())?;
        let is_taken_away = end.status() == AttemptStatus::Lost
            && self.is_current()
            && !self.stopped.contains(&end.attempt());
        let reason = "revoked".to_owned();
        is_taken_away.then(|| send(None, Some(lease), GatewayFrame::Cancel { reason }))
    }

    /// Frees the slot of a finalized attempt.
    pub(super) fn release(&mut self, end: &FinalizedAttempt) -> Option<Effect> {
        self.offered.remove(&end.attempt());
        self.stopped.remove(&end.attempt());
        self.slots.release(end).then_some(Effect::Nudge)
    }

    /// The buyer cancelled: push it once; every progress reply carries it too.
    pub(super) fn on_stop(&mut self, stop: &Stopping, reason: &str) -> Option<Effect> {
        let fresh = self.is_current() && self.stopped.insert(stop.attempt);
        fresh.then(|| {
            let lease = LeaseRef {
                job_id: stop.job,
                attempt_id: stop.attempt,
                lease_epoch: stop.epoch,
            };
            send(
                None,
                Some(lease),
                GatewayFrame::Cancel {
                    reason: reason.to_owned(),
                },
            )
        })
    }

    /// The device as the rows show it: the truth about slots, stops and who is current.
    pub(super) fn on_refresh(&mut self, view: &SessionView) -> Vec<Effect> {
        if !self.is_current() || view.session != self.session {
            return Vec::new();
        }
        if !view.valid {
            return vec![
                send(None, None, GatewayFrame::Disabled),
                Effect::Close(close::REVOKED, "the device is disabled or paired again"),
            ];
        }
        if !view.current {
            return vec![Effect::Close(
                close::SUPERSEDED,
                "a newer session is current",
            )];
        }
        let live: BTreeSet<_> = view.live.iter().map(|held| held.attempt).collect();
        for held in &view.live {
            // Who works on a claim is told by the answers to its own requests.
            let lease = (!held.claimed).then_some(LeaseRef {
                job_id: held.job,
                attempt_id: held.attempt,
                lease_epoch: held.epoch,
            });
            self.slots.hold(held.attempt, lease);
        }
        let mut effects = Vec::new();
        for held in view.live.iter().filter(|held| !held.claimed) {
            if let Some(reason) = &held.stop_reason {
                let stop = Stopping {
                    job: held.job,
                    attempt: held.attempt,
                    device: self.device,
                    epoch: held.epoch,
                };
                effects.extend(self.on_stop(&stop, reason));
            }
        }
        let gone = self.slots.missing_from(&live);
        if !gone.is_empty() {
            effects.push(Effect::ProveEnded(gone));
        }
        effects
    }

    fn next_of(&mut self, attempt: AttemptId) -> Option<Effect> {
        self.lanes
            .done(attempt)
            .map(|next| Effect::Run(Box::new(next)))
    }
}

/// A frame to be written.
pub(super) fn send(
    request_id: Option<RequestId>,
    lease: Option<LeaseRef>,
    frame: GatewayFrame,
) -> Effect {
    Effect::Send(Box::new(GatewayEnvelope {
        request_id,
        lease,
        frame,
    }))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
