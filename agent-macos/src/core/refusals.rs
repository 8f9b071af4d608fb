//! What a refusal means, by what was asked and what the gateway says to do about it.

use fencepost_protocol::{Code, Disposition, LeaseRef};

use super::held::{Settling, State};
use super::requests::{Asked, Kind};
use super::{Core, Effect, Link};
use crate::clock::Moment;
use crate::closing::Farewell;
use crate::outbox::Pending;

const PAUSE_MS: u64 = 1_000;
const LONGEST_PAUSE_MS: u64 = 30_000;
const SHORTEST_PAUSE_MS: u64 = 100;

/// A `rejected` frame.
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) disposition: Disposition,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) message: Option<String>,
}

impl Refusal {
    /// `busy` is a refusal too.
    pub(super) fn busy(retry_after_ms: u64) -> Self {
        Self {
            code: Code::Busy,
            disposition: Disposition::Retry,
            retry_after_ms: Some(retry_after_ms),
            message: None,
        }
    }

    /// Whether the same question may be answered later.
    pub(super) fn is_passing(&self) -> bool {
        self.disposition == Disposition::Retry
    }

    pub(super) fn again_at(&self, now: Moment) -> Moment {
        let pause = self.retry_after_ms.unwrap_or(PAUSE_MS);
        now.after_millis(pause.clamp(SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS))
    }
}

impl Core {
    pub(super) fn on_rejected(
        &mut self,
        asked: Option<Asked>,
        lease: Option<LeaseRef>,
        refusal: &Refusal,
        now: Moment,
    ) {
        let Some(asked) = asked else { return };
        match (asked.kind, lease) {
            (Kind::Hello, _) => self.on_hello_refused(refusal, now),
            (Kind::Pull, _) => {
                self.pull.standing = None;
                self.pull.not_before = refusal.again_at(now);
            }
            (Kind::Accept | Kind::Progress, Some(lease)) => {
                self.on_work_refused(asked, lease, refusal, now);
            }
            (Kind::Grant, Some(lease)) if refusal.disposition == Disposition::Stop => {
                self.on_work_refused(asked, lease, refusal, now);
            }
            (Kind::Grant, Some(lease)) => {
                self.postpone_if_time_stands_still(asked, lease, refusal);
                self.on_link_refused(lease.attempt_id, refusal);
            }
            (Kind::Commit | Kind::HandBack, Some(lease)) => {
                self.on_last_word_refused(lease, refusal, now);
            }
            (Kind::Event(event), Some(lease)) => {
                self.on_event_refused(lease, event, refusal, now);
            }
            (
                Kind::Accept
                | Kind::Progress
                | Kind::Grant
                | Kind::Commit
                | Kind::HandBack
                | Kind::Event(_),
                None,
            ) => {}
        }
    }

    fn on_hello_refused(&mut self, refusal: &Refusal, now: Moment) {
        match refusal.disposition {
            Disposition::Retry => {
                self.link = Link::Greeting {
                    again_at: Some(refusal.again_at(now)),
                };
            }
            Disposition::Stop if refusal.code == Code::Unauthorized => {
                self.effects.push(Effect::Exit(Farewell::Unauthorized));
            }
            Disposition::Stop | Disposition::Fix => {
                self.effects.push(Effect::Exit(Farewell::HelloRefused));
            }
        }
    }

    /// An accept or a renewal was refused.
    fn on_work_refused(&mut self, asked: Asked, lease: LeaseRef, refusal: &Refusal, now: Moment) {
        let pause = refusal.again_at(now);
        let Some(held) = self.holding(lease) else {
            return;
        };
        match (refusal.disposition, &mut held.state) {
            // The answer to the last word itself decides, not one to a renewal beside it.
            (Disposition::Stop | Disposition::Fix, State::Settling(_)) => {}
            (Disposition::Stop, _) | (Disposition::Fix, State::Offered { .. }) => {
                let code = refusal.code.as_str();
                tracing::warn!(attempt.id = %lease.attempt_id, code, "the lease is not ours any more");
                self.let_go(lease.attempt_id, None, now);
            }
            (Disposition::Fix, State::Working { .. }) => {
                let what = refusal.message.as_deref().unwrap_or("no reason was given");
                tracing::error!(attempt.id = %lease.attempt_id, what, "a progress report was refused");
            }
            (Disposition::Retry, state) => {
                if let State::Offered { again_at, .. } = state {
                    *again_at = Some(pause);
                } else {
                    held.renewal.again_at = Some(pause);
                }
                self.postpone_if_time_stands_still(asked, lease, refusal);
            }
        }
    }

    /// While the authority's clock is behind its own mark nothing can expire, so our deadline may
    /// move by what it asks us to wait.
    fn postpone_if_time_stands_still(&mut self, asked: Asked, lease: LeaseRef, refusal: &Refusal) {
        let Some(by_ms) = refusal
            .retry_after_ms
            .filter(|_| refusal.code == Code::ClockRegressed)
        else {
            return;
        };
        if let Some(held) = self.holding(lease) {
            held.lease.postpone(asked.sent, by_ms);
            self.move_deadline(lease.attempt_id);
        }
    }

    /// A commit, fail or release was refused.
    fn on_last_word_refused(&mut self, lease: LeaseRef, refusal: &Refusal, now: Moment) {
        let pause = refusal.again_at(now);
        let Some(held) = self.holding(lease) else {
            return;
        };
        let State::Settling(settling) = &mut held.state else {
            return;
        };
        let attempt = lease.attempt_id;
        let code = refusal.code.as_str();
        match refusal.disposition {
            Disposition::Retry => settling.again_at = Some(pause),
            Disposition::Fix if matches!(settling.pending, Pending::Commit { .. }) => {
                let what = refusal.message.as_deref().unwrap_or("no reason was given");
                tracing::error!(attempt.id = %attempt, what, "the commit was not understood");
                let pending = Pending::Fail {
                    failure_code: "internal_error".to_owned(),
                    message: "the gateway did not understand the agent's commit".to_owned(),
                };
                *settling = Settling::new(pending);
                self.persist(attempt);
                self.say_last_word(attempt, now);
            }
            Disposition::Stop | Disposition::Fix => {
                tracing::warn!(attempt.id = %attempt, code, "the last word was refused for good");
                // Nobody will ask for what it left.
                self.reap(attempt);
                self.let_go(attempt, None, now);
            }
        }
    }
}
