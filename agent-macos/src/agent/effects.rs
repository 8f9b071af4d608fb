//! Carries out what the core decided, in the order it decided it.

use fencepost_domain::ids::AttemptId;

use super::Agent;
use crate::backoff::Redial;
use crate::clock;
use crate::closing::Farewell;
use crate::core::Effect;
use crate::outbox::LeaseRecord;
use crate::state_dir::StateDirError;

impl Agent {
    pub(super) async fn carry_out(&mut self) -> Result<(), Farewell> {
        // Dropping the socket makes the core speak up again, hence the loop.
        loop {
            let effects = self.core.take_effects();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.carry_out_one(effect).await?;
            }
        }
    }

    async fn carry_out_one(&mut self, effect: Effect) -> Result<(), Farewell> {
        match effect {
            Effect::Persist(record) => self.persist(record).await,
            Effect::Forget(attempt) => self.forget(attempt).await,
            Effect::StartJob { work, deadline } => self.jobs.start(*work, deadline),
            Effect::MoveDeadline(attempt, deadline) => self.jobs.move_deadline(attempt, deadline),
            Effect::StopJob(attempt) => self.jobs.stop(attempt),
            Effect::Send(envelope) => {
                // Frames for a socket that is gone are dropped: the next hello covers them.
                if let Some(link) = &self.link
                    && !link.say(*envelope)
                {
                    self.drop_link("the gateway does not read");
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

    /// Cuts the line and dials again at once.
    pub(super) fn drop_link(&mut self, why: &str) {
        if let Some(link) = self.link.take() {
            tracing::warn!(why, "dropping the socket");
            self.board.now.last_error = Some(why.to_owned());
            self.after_session(link.opened(), Redial::Broken, clock::now());
        }
    }

    async fn persist(&mut self, record: Box<LeaseRecord>) {
        let outbox = self.outbox.clone();
        let attempt = record.attempt_id;
        let written = tokio::task::spawn_blocking(move || outbox.put(&record)).await;
        self.note_trouble(attempt, written.map_err(|error| error.to_string()));
    }

    async fn forget(&mut self, attempt: AttemptId) {
        let outbox = self.outbox.clone();
        let removed = tokio::task::spawn_blocking(move || outbox.remove(attempt)).await;
        self.note_trouble(attempt, removed.map_err(|error| error.to_string()));
    }

    /// A disk that does not take the outbox is bad, but the lease in memory still holds: losing it
    /// for the disk's sake would only make it worse.
    fn note_trouble(
        &mut self,
        attempt: AttemptId,
        done: Result<Result<(), StateDirError>, String>,
    ) {
        let flat = done.and_then(|done| done.map_err(|error| error.to_string()));
        if let Err(error) = flat {
            tracing::error!(attempt.id = %attempt, error, "the outbox cannot be written");
            self.board.now.last_error = Some(error);
        }
    }
}
