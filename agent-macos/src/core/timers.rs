//! What happens because time passes.
//!
//! Deadlines come first: after a sleep or a freeze, the first thing that an agent must do is to
//! stop what it may not do any more.

use fencepost_domain::ids::AttemptId;
use fencepost_protocol::AgentFrame;

use super::held::{Held, State};
use super::requests::Kind;
use super::{Core, Effect, Link};
use crate::clock::Moment;
use crate::outbox::Pending;

/// A commit that is not answered is repeated; verification may take long, so not often.
const COMMIT_REPEAT_MS: u64 = 30_000;
/// A pull that nobody answered is made again.
const PULL_REPEAT_MS: u64 = 60_000;

/// What one attempt needs now.
enum Due {
    Report,
    LastWord,
    Accept,
    Events,
}

impl Core {
    /// Time has passed. Call it several times a second, whatever else happens.
    pub fn on_tick(&mut self, now: Moment) {
        self.end_dead_leases(now);
        self.reap_what_is_over(now);
        match self.link {
            Link::Down => return,
            Link::Greeting { again_at } => {
                if again_at.is_some_and(|again_at| now >= again_at) {
                    self.link = Link::Greeting { again_at: None };
                    self.say_hello(now);
                }
            }
            Link::Up => self.do_what_is_due(now),
        }
        self.watch_the_other_side(now);
    }

    /// Work has to be over when its lease is; an offer that is being accepted has no work yet.
    fn end_of(&self, held: &Held) -> Moment {
        match held.state {
            State::Working { .. } => self.stop_at(&held.lease),
            State::Offered { .. } | State::Settling(_) => held.lease.deadline(),
        }
    }

    /// Past its end nothing is worked on, and nothing of it is told.
    fn end_dead_leases(&mut self, now: Moment) {
        let dead: Vec<AttemptId> = self
            .held
            .values()
            .filter(|held| held.is_bound_by_deadline() && now >= self.end_of(held))
            .map(Held::attempt)
            .collect();
        for attempt in dead {
            tracing::warn!(attempt.id = %attempt, "the lease ran out; stopping its work");
            self.let_go(attempt, None, now);
        }
    }

    fn do_what_is_due(&mut self, now: Moment) {
        let due: Vec<(AttemptId, Due)> = self
            .held
            .values()
            .flat_map(|held| self.due(held, now).map(|due| (held.attempt(), due)))
            .collect();
        for (attempt, due) in due {
            match due {
                Due::Report => self.report(attempt, now),
                Due::LastWord => self.repeat_last_word(attempt, now),
                Due::Accept => self.accept_again(attempt, now),
                Due::Events => self.say_events(attempt, now),
            }
        }
        let idle = now.millis_since(self.last_said) >= self.intervals.heartbeat_ms;
        if idle {
            self.send(None, AgentFrame::Heartbeat, now);
        }
        if self
            .pull
            .standing
            .is_some_and(|(_, at)| now.millis_since(at) >= PULL_REPEAT_MS)
        {
            self.pull.standing = None;
        }
        self.maybe_pull(now);
    }

    fn due(&self, held: &Held, now: Moment) -> impl Iterator<Item = Due> + use<> {
        let passed = |at: Option<Moment>| at.is_some_and(|at| now >= at);
        let since = |at: Option<Moment>| at.map_or(u64::MAX, |at| now.millis_since(at));
        let renewal = &held.renewal;
        let renew = match renewal.again_at {
            Some(again_at) => now >= again_at,
            None => since(renewal.sent) >= self.intervals.renew_ms,
        };
        let (first, second) = match &held.state {
            State::Offered { again_at, .. } => (passed(*again_at).then_some(Due::Accept), None),
            State::Working { .. } => (renew.then_some(Due::Report), None),
            State::Settling(settling) => {
                let repeat = match (settling.again_at, &settling.pending) {
                    (Some(again_at), _) => now >= again_at,
                    (None, Pending::Commit { .. }) => since(settling.said) >= COMMIT_REPEAT_MS,
                    (
                        None,
                        Pending::Fail { .. } | Pending::Release { .. } | Pending::Retain { .. },
                    ) => settling.said.is_none(),
                };
                let repeat = repeat && !held.waits_for_events(now);
                let commits = matches!(settling.pending, Pending::Commit { .. });
                // The lease must live until the commit is taken in, so it is still renewed.
                (
                    (renew && commits).then_some(Due::Report),
                    repeat.then_some(Due::LastWord),
                )
            }
        };
        let events = passed(held.events_again_at).then_some(Due::Events);
        events.into_iter().chain(first).chain(second)
    }

    fn accept_again(&mut self, attempt: AttemptId, now: Moment) {
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        if let State::Offered { again_at, .. } = &mut held.state {
            *again_at = None;
            let lease = held.lease.reference();
            self.send(Some(Kind::Accept), AgentFrame::OfferAccept { lease }, now);
        }
    }

    fn watch_the_other_side(&mut self, now: Moment) {
        if now.millis_since(self.last_heard) >= self.intervals.dead_ms {
            self.effects
                .push(Effect::Reconnect("nothing was heard for too long"));
        } else if self.requests.overdue(self.intervals.answer_ms, now) {
            self.effects
                .push(Effect::Reconnect("a question was not answered in time"));
        }
    }
}
