//! What became of the leases that `hello` listed.

use std::collections::BTreeSet;

use fencepost_domain::ids::AttemptId;
use fencepost_protocol::{Lost, Recorded, Resumed};

use super::held::State;
use super::{Core, Link};
use crate::clock::Moment;

/// The reason of a `lost` that wants to hear `stopped`.
const CANCELLED: &str = "buyer_cancelled";

impl Core {
    pub(super) fn on_welcome(
        &mut self,
        hello_sent: Moment,
        resumed: Vec<Resumed>,
        recorded: Vec<Recorded>,
        lost: Vec<Lost>,
        now: Moment,
    ) {
        self.link = Link::Up;
        let mut unanswered: BTreeSet<AttemptId> = self.held.keys().copied().collect();
        for resumed in resumed {
            unanswered.remove(&resumed.attempt_id);
            self.on_resumed(hello_sent, resumed, now);
        }
        for recorded in recorded {
            unanswered.remove(&recorded.attempt_id);
            self.on_recorded(&recorded, now);
        }
        for lost in lost {
            unanswered.remove(&lost.attempt_id);
            self.on_lost(&lost, now);
        }
        // The contract answers each; what it does not answer, we cannot claim to hold.
        for attempt in unanswered {
            tracing::warn!(attempt.id = %attempt, "the welcome does not mention a held lease");
            self.let_go(attempt, None, now);
        }
        self.maybe_pull(now);
    }

    /// The lease goes on under a new pair, which is on disk before anything is said under it.
    fn on_resumed(&mut self, hello_sent: Moment, resumed: Resumed, now: Moment) {
        let attempt = resumed.attempt_id;
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        let deadline = hello_sent.after_millis(resumed.lease_remaining_ms);
        held.lease
            .rotate(resumed.lease_epoch, resumed.commit_token, deadline);
        tracing::info!(attempt.id = %attempt, lease.epoch = resumed.lease_epoch, "lease resumed");
        self.persist(attempt);
        self.say_events_first(attempt, now);
        match self.held.get(&attempt).map(|held| &held.state) {
            Some(State::Offered { .. }) => self.start(attempt, now),
            Some(State::Working { .. }) => {
                self.move_deadline(attempt);
                self.report(attempt, now);
            }
            // It was not recorded, so it is said again under the new pair.
            Some(State::Settling(_)) => {
                let waits = self
                    .held
                    .get(&attempt)
                    .is_some_and(|held| held.waits_for_events(now));
                if !waits {
                    self.say_last_word(attempt, now);
                }
            }
            None => {}
        }
    }

    /// The authority has our last word. Repeating it under the pair it was first said with (which
    /// is the one we hold, since nothing was rotated) gets the stored answer.
    fn on_recorded(&mut self, recorded: &Recorded, now: Moment) {
        let attempt = recorded.attempt_id;
        match self.held.get(&attempt).map(|held| &held.state) {
            Some(State::Settling(_)) => {
                self.say_events(attempt, now);
                self.repeat_last_word(attempt, now);
            }
            Some(State::Offered { .. } | State::Working { .. }) => {
                let status = recorded.status.as_str();
                tracing::warn!(attempt.id = %attempt, status, "recorded as ended without our word");
                self.let_go(attempt, None, now);
            }
            None => {}
        }
    }

    fn on_lost(&mut self, lost: &Lost, now: Moment) {
        let attempt = lost.attempt_id;
        let Some(held) = self.held.get(&attempt) else {
            return;
        };
        tracing::warn!(attempt.id = %attempt, reason = lost.reason, "the lease is lost");
        let confirm = (lost.reason == CANCELLED).then(|| held.lease.reference());
        self.let_go(attempt, confirm, now);
    }
}
