//! Reports that renew, and the last word about an attempt.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::AttemptId;
use fencepost_protocol::{AgentFrame, LeaseRef};

use super::Core;
use super::held::{Held, Renewal, State};
use super::requests::Kind;
use crate::clock::Moment;
use crate::outbox::Pending;

/// Percent alone is reported at most this often.
const PERCENT_SPACING_MS: u64 = 1_000;
/// And only if it grew by this much.
const PERCENT_STEP: f32 = 1.0;

impl Core {
    /// Reports phase and percent; the answer renews the lease.
    pub(super) fn report(&mut self, attempt: AttemptId, now: Moment) {
        if !self.may_speak() {
            return;
        }
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        let (phase, percent) = (held.phase(), percent_of(held));
        let lease = held.lease.reference();
        held.renewal = Renewal {
            sent: Some(now),
            phase: Some(phase),
            percent,
            again_at: None,
        };
        let frame = AgentFrame::Progress {
            lease,
            phase,
            percent,
            detail: None,
        };
        self.send(Some(Kind::Progress), frame, now);
    }

    /// Reports if there is something worth saying: a new phase at once, a new percent in measure.
    pub(super) fn maybe_report(&mut self, attempt: AttemptId, now: Moment) {
        let waiting = self.requests.is_open(Kind::Progress, attempt);
        let Some(held) = self.held.get(&attempt) else {
            return;
        };
        let renewal = &held.renewal;
        if renewal.again_at.is_some_and(|again_at| now < again_at) {
            return;
        }
        let new_phase = renewal.phase != Some(held.phase());
        let spaced = renewal
            .sent
            .is_none_or(|sent| now.millis_since(sent) >= PERCENT_SPACING_MS);
        let grown = match (percent_of(held), renewal.percent) {
            (Some(percent), Some(before)) => percent - before >= PERCENT_STEP,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if new_phase || (grown && spaced && !waiting) {
            self.report(attempt, now);
        }
    }

    /// Says the last word under the pair that we hold now. A commit is taken only from an attempt
    /// that is known to be uploading, and the report of that may have been lost with a socket.
    pub(super) fn say_last_word(&mut self, attempt: AttemptId, now: Moment) {
        let commits = self.held.get(&attempt).is_some_and(|held| {
            matches!(&held.state, State::Settling(s) if matches!(s.pending, Pending::Commit { .. }))
        });
        if commits {
            if let Some(held) = self.held.get_mut(&attempt) {
                held.advance(Phase::Uploading);
            }
            self.report(attempt, now);
        }
        self.repeat_last_word(attempt, now);
    }

    /// Says exactly what was said before.
    pub(super) fn repeat_last_word(&mut self, attempt: AttemptId, now: Moment) {
        if !self.may_speak() {
            return;
        }
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        let State::Settling(settling) = &mut held.state else {
            return;
        };
        settling.said = Some(now);
        settling.again_at = None;
        let kind = match settling.pending {
            Pending::Commit { .. } => Kind::Commit,
            Pending::Fail { .. } | Pending::Release { .. } | Pending::Retain { .. } => {
                Kind::HandBack
            }
        };
        let frame = settling
            .pending
            .frame(held.lease.reference(), held.lease.token().clone());
        self.send(Some(kind), frame, now);
    }

    /// The authority has answered finally. Only a last word that we really said can be answered.
    pub(super) fn on_settled(&mut self, lease: LeaseRef, now: Moment) {
        let settling = self
            .holding(lease)
            .is_some_and(|held| matches!(held.state, State::Settling(_)));
        if settling && !self.hand_over(lease.attempt_id, now) {
            self.let_go(lease.attempt_id, None, now);
        }
    }
}

fn percent_of(held: &Held) -> Option<f32> {
    match &held.state {
        State::Working { percent, .. } => *percent,
        State::Settling(settling) => match settling.pending {
            Pending::Commit { .. } => Some(100.0),
            Pending::Fail { .. } | Pending::Release { .. } | Pending::Retain { .. } => None,
        },
        State::Offered { .. } => None,
    }
}
