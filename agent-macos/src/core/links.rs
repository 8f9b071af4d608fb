//! Fresh links for jobs whose links have expired.

use fencepost_domain::ids::AttemptId;
use fencepost_protocol::{AgentFrame, LeaseRef};

use super::effect::{FreshLink, LinkAnswer, Wanted};
use super::held::State;
use super::refusals::Refusal;
use super::requests::Kind;
use super::{Core, Effect};
use crate::clock::Moment;

impl Core {
    /// A job needs a new link for an object. The
    /// answer is an [`Effect::GiveLink`]; if none comes, the job asks again.
    pub fn on_link_wanted(&mut self, attempt: AttemptId, wanted: Wanted, now: Moment) {
        let working = self
            .held
            .get(&attempt)
            .filter(|held| matches!(held.state, State::Working { .. }))
            .map(|held| held.lease.reference());
        match working.filter(|_| self.may_speak()) {
            Some(lease) => {
                let Wanted {
                    name,
                    direction,
                    first_part,
                } = wanted;
                tracing::info!(attempt.id = %attempt, name, first_part, "asking for a fresh link");
                let direction = direction.to_owned();
                let frame = AgentFrame::Grant {
                    lease,
                    name,
                    direction,
                    first_part,
                };
                self.send(Some(Kind::Grant), frame, now);
            }
            None => self.give_link(attempt, LinkAnswer::NotNow),
        }
    }

    pub(super) fn on_granted(&mut self, lease: LeaseRef, link: FreshLink) {
        if self.holding(lease).is_some() {
            self.give_link(lease.attempt_id, LinkAnswer::Fresh(link));
        }
    }

    /// The gateway understood the question and has no such link, or is in trouble. (Not holding the
    /// lease any more is dealt with before.)
    pub(super) fn on_link_refused(&mut self, attempt: AttemptId, refusal: &Refusal) {
        let answer = if refusal.is_passing() {
            LinkAnswer::NotNow
        } else {
            LinkAnswer::Refused
        };
        self.give_link(attempt, answer);
    }

    fn give_link(&mut self, attempt: AttemptId, answer: LinkAnswer) {
        self.effects.push(Effect::GiveLink(attempt, answer));
    }
}
