//! What failed runs left on this machine: handed over to the authority, deleted when its time is
//! over or it is told to, and always deleted rather than in the way of new work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::AttemptId;
use fencepost_protocol::AgentFrame;

use super::held::{Settling, State};
use super::{Core, Effect};
use crate::clock::Moment;
use crate::outbox::Pending;

/// The most that are kept; the oldest goes first.
const MAX_KEPT: usize = 100;

/// What is kept, and for how long.
#[derive(Debug, Default)]
pub(super) struct Kept {
    retain_for: Option<LeaseDuration>,
    until: BTreeMap<AttemptId, Moment>,
    /// On its way out; `reaped` is said when it is gone.
    going: BTreeSet<AttemptId>,
}

impl Core {
    /// Keeps what failed runs leave for so long, and goes on with what an earlier run kept.
    pub fn keep_for(
        &mut self,
        retain_for: Option<LeaseDuration>,
        left: Vec<(AttemptId, Duration)>,
        now: Moment,
    ) {
        self.kept.retain_for = retain_for;
        for (attempt, left) in left {
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            self.kept.until.insert(attempt, now.after_millis(left));
        }
    }

    /// A run has failed: its log is kept, if anything is.
    pub(super) fn keep_run(&mut self, attempt: AttemptId, log: String, now: Moment) {
        let Some(retain_for) = self.kept.retain_for else {
            return;
        };
        let millis = u64::try_from(retain_for.std().as_millis()).unwrap_or(u64::MAX);
        self.kept.until.insert(attempt, now.after_millis(millis));
        self.effects.push(Effect::Keep(attempt, log));
        if self.kept.until.len() > MAX_KEPT
            && let Some((&oldest, _)) = self.kept.until.iter().min_by_key(|(_, until)| **until)
        {
            self.reap(oldest);
        }
    }

    /// The failure of an attempt is recorded: what it left is handed over, under the same lease.
    pub(super) fn hand_over(&mut self, attempt: AttemptId, now: Moment) -> bool {
        let Some(retain_for) = self.kept.retain_for else {
            return false;
        };
        if !self.kept.until.contains_key(&attempt) || self.kept.going.contains(&attempt) {
            return false;
        }
        let Some(held) = self.held.get_mut(&attempt) else {
            return false;
        };
        let failed = matches!(&held.state, State::Settling(settling)
            if matches!(settling.pending, Pending::Fail { .. }));
        if !failed {
            return false;
        }
        held.state = State::Settling(Settling::new(Pending::Retain {
            handle: attempt.to_string(),
            retain_for,
        }));
        self.persist(attempt);
        self.say_last_word(attempt, now);
        true
    }

    /// Deletes what was kept of an attempt.
    pub(super) fn reap(&mut self, attempt: AttemptId) {
        if self.kept.until.contains_key(&attempt) && self.kept.going.insert(attempt) {
            self.effects.push(Effect::Reap(attempt));
        }
    }

    /// Deletes all that is kept: room for work comes first.
    pub(super) fn reap_all(&mut self) {
        let all: Vec<_> = self.kept.until.keys().copied().collect();
        for attempt in all {
            self.reap(attempt);
        }
    }

    /// Deletes what has been kept long enough, with or without a gateway.
    pub(super) fn reap_what_is_over(&mut self, now: Moment) {
        let over = self.kept.until.iter().filter(|(_, until)| now >= **until);
        let over: Vec<_> = over.map(|(attempt, _)| *attempt).collect();
        for attempt in over {
            self.reap(attempt);
        }
    }

    /// The gateway says that something was kept long enough.
    pub(super) fn on_reap(&mut self, handle: String, now: Moment) {
        match handle.parse() {
            Ok(attempt) if self.kept.until.contains_key(&attempt) => self.reap(attempt),
            // Unknown to us, which is as good as gone.
            Ok(_) | Err(_) => self.say_reaped(handle, now),
        }
    }

    /// What was kept of an attempt is gone. A hand-off that was not answered is not needed any more.
    pub fn on_reaped(&mut self, attempt: AttemptId, now: Moment) {
        self.kept.until.remove(&attempt);
        self.kept.going.remove(&attempt);
        if self.is_handing_over(attempt) {
            self.let_go(attempt, None, now);
        }
        self.say_reaped(attempt.to_string(), now);
    }

    /// Whether all that is left to say about an attempt is what it left: it takes no slot.
    pub(super) fn is_handing_over(&self, attempt: AttemptId) -> bool {
        self.held.get(&attempt).is_some_and(|held| {
            matches!(&held.state, State::Settling(settling)
                if matches!(settling.pending, Pending::Retain { .. }))
        })
    }

    fn say_reaped(&mut self, handle: String, now: Moment) {
        if self.may_speak() {
            self.send(None, AgentFrame::Reaped { handle }, now);
        }
    }
}
