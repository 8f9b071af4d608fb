//! Journal events of held attempts: said until they are answered, under the lease that they were
//! first said with, and once more under the current one if that lease is gone.

use fencepost_domain::ids::{AttemptId, EventId};
use fencepost_protocol::{AgentFrame, LeaseRef};
use serde_json::Value;

use super::Core;
use super::held::State;
use super::refusals::Refusal;
use super::requests::Kind;
use crate::clock::Moment;
use crate::outbox::PendingEvent;

/// How long a last word waits for events that have to be said again after a reconnect.
const EVENTS_FIRST_MS: u64 = 5_000;

impl Core {
    /// Adds an event to an attempt's journal. The caller persists the attempt and says the event.
    pub(super) fn note(&mut self, attempt: AttemptId, kind: &str, payload: Value) {
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        let event = PendingEvent {
            event_id: EventId::new(),
            seq: held.next_seq,
            kind: kind.to_owned(),
            payload,
            lease_epoch: held.lease.reference().lease_epoch,
            commit_token: held.lease.token().clone(),
            again: false,
        };
        held.next_seq += 1;
        held.events.push(event);
    }

    /// Says every event of an attempt that is not answered.
    pub(super) fn say_events(&mut self, attempt: AttemptId, now: Moment) {
        let Some(held) = self
            .held
            .get_mut(&attempt)
            .filter(|_| self.link == super::Link::Up)
        else {
            return;
        };
        held.events_again_at = None;
        let job_id = held.lease.reference().job_id;
        for event in held.events.clone() {
            let lease = LeaseRef {
                job_id,
                attempt_id: attempt,
                lease_epoch: event.lease_epoch,
            };
            if self.requests.is_open(Kind::Event(event.event_id), attempt) {
                continue;
            }
            let frame = AgentFrame::Event {
                lease,
                commit_token: event.commit_token,
                event_id: event.event_id,
                seq: event.seq,
                kind: event.kind,
                payload: event.payload,
            };
            self.send(Some(Kind::Event(event.event_id)), frame, now);
        }
    }

    /// After a reconnect, events come before the last word: after it, no new one is taken.
    pub(super) fn say_events_first(&mut self, attempt: AttemptId, now: Moment) {
        if let Some(held) = self.held.get_mut(&attempt) {
            held.events_first_until = Some(now.after_millis(EVENTS_FIRST_MS));
        }
        self.say_events(attempt, now);
    }

    /// An event is stored, or will never be.
    pub(super) fn on_event_answered(&mut self, attempt: AttemptId, event: EventId, now: Moment) {
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        held.events.retain(|one| one.event_id != event);
        let waiting = held.events.is_empty()
            && held.events_first_until.take().is_some()
            && matches!(&held.state, State::Settling(settling) if settling.said.is_none());
        if waiting {
            self.say_last_word(attempt, now);
        }
    }

    pub(super) fn on_event_refused(
        &mut self,
        lease: LeaseRef,
        event: EventId,
        refusal: &Refusal,
        now: Moment,
    ) {
        let attempt = lease.attempt_id;
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        if refusal.is_passing() {
            held.events_again_at = Some(refusal.again_at(now));
            return;
        }
        let current = held.lease.reference();
        let token = held.lease.token().clone();
        let stale = |one: &&mut PendingEvent| {
            one.event_id == event && !one.again && one.lease_epoch != current.lease_epoch
        };
        if let Some(one) = held.events.iter_mut().find(stale) {
            (one.lease_epoch, one.commit_token, one.again) = (current.lease_epoch, token, true);
            self.persist(attempt);
            self.say_events(attempt, now);
            return;
        }
        let code = refusal.code.as_str();
        tracing::warn!(attempt.id = %attempt, code, "an event was not taken");
        self.on_event_answered(attempt, event, now);
    }
}
