//! Carries out what the core decided, in the order it decided it.

use fencepost_protocol::AgentEnvelope;

use super::Agent;
use super::writing::Written;
use crate::backoff::Redial;
use crate::clock;
use crate::closing::Farewell;
use crate::core::Effect;

impl Agent {
    pub(super) fn carry_out(&mut self) -> Result<(), Farewell> {
        // Dropping the socket makes the core speak up again, hence the loop.
        loop {
            let effects = self.core.take_effects();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.carry_out_one(effect)?;
            }
        }
    }

    fn carry_out_one(&mut self, effect: Effect) -> Result<(), Farewell> {
        match effect {
            Effect::Persist(record) => self.writing.put(record),
            Effect::Forget(attempt) => self.writing.remove(attempt),
            Effect::Keep(attempt, log) => self.writing.keep(attempt, log),
            Effect::Reap(attempt) => self.writing.reap(attempt),
            Effect::StartJob { work, deadline } => self.jobs.start(*work, deadline),
            Effect::MoveDeadline(attempt, deadline) => self.jobs.move_deadline(attempt, deadline),
            Effect::StopJob(attempt) => self.jobs.stop(attempt),
            Effect::GiveLink(attempt, answer) => self.jobs.give_link(attempt, answer),
            Effect::Send(envelope) => {
                if let Some(envelope) = self.writing.sayable(*envelope) {
                    self.say(envelope);
                }
            }
            Effect::Reconnect(why) => self.drop_link(why),
            Effect::Notice(notice) => {
                tracing::error!(notice);
                self.board.now.last_error = Some(notice);
            }
            Effect::Exit(farewell) => return Err(farewell),
        }
        Ok(())
    }

    /// A record is on disk, so what waited for it is said. A disk that does not take the outbox is
    /// bad, but the lease in memory still holds: losing it for the disk's sake would only make it
    /// worse.
    pub(super) fn on_written(&mut self, written: &Written) {
        if written.is_reaped() {
            self.core.on_reaped(written.attempt(), clock::now());
        }
        if let Some(error) = &written.trouble {
            tracing::error!(error, "the outbox cannot be written");
            self.board.now.last_error = Some(error.clone());
        }
        for envelope in self.writing.on_written(written) {
            self.say(envelope);
        }
    }

    fn say(&mut self, envelope: AgentEnvelope) {
        // Frames for a socket that is gone are dropped: the next hello covers them.
        if let Some(link) = &self.link
            && !link.say(envelope)
        {
            self.drop_link("the gateway does not read");
        }
    }

    /// Cuts the line and dials again at once.
    pub(super) fn drop_link(&mut self, why: &str) {
        if let Some(link) = self.link.take() {
            tracing::warn!(why, "dropping the socket");
            self.board.now.last_error = Some(why.to_owned());
            self.after_session(link.opened(), Redial::Broken, clock::now());
        }
    }
}
