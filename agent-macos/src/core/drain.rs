//! Going down: no new work, and what is not finished is handed back.

use fencepost_domain::ids::AttemptId;
use fencepost_protocol::AgentFrame;

use super::held::{Held, Settling, State};
use super::{Core, Effect};
use crate::clock::Moment;
use crate::outbox::Pending;

const REASON: &str = "the agent is shutting down";

impl Core {
    /// Takes no new work and hands back what is being worked on, once its children are gone.
    pub fn drain(&mut self, now: Moment) {
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        if self.may_speak() {
            self.send(
                None,
                AgentFrame::Drain {
                    mode: "release".to_owned(),
                },
                now,
            );
        }
        let held: Vec<AttemptId> = self.held.keys().copied().collect();
        for attempt in held {
            self.drain_one(attempt, now);
        }
    }

    fn drain_one(&mut self, attempt: AttemptId, now: Moment) {
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        match &mut held.state {
            State::Working { release, .. } => {
                *release = Some(REASON.to_owned());
                self.effects.push(Effect::StopJob(attempt));
            }
            // Whether our accept has arrived or not: a release gives the lease back either way.
            State::Offered { .. } => {
                let pending = Pending::Release {
                    reason: REASON.to_owned(),
                };
                held.state = State::Settling(Settling::new(pending));
                self.persist(attempt);
                self.say_last_word(attempt, now);
            }
            // Its answer is waited for, and kept in the outbox if it does not come in time.
            State::Settling(_) => {}
        }
    }

    /// Whether everything has stopped and everything handed back has been acknowledged. A commit
    /// may take as long as its verification and stays in the outbox.
    pub fn is_drained(&self) -> bool {
        let waits = |held: &Held| match &held.state {
            State::Offered { .. } | State::Working { .. } => true,
            State::Settling(settling) => match settling.pending {
                Pending::Fail { .. } | Pending::Release { .. } => self.may_speak(),
                // These wait in the outbox.
                Pending::Commit { .. } | Pending::Retain { .. } => false,
            },
        };
        self.draining && self.running.is_empty() && !self.held.values().any(waits)
    }
}
