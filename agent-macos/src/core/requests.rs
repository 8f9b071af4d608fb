//! Questions that wait for an answer.

use std::collections::HashMap;

use fencepost_domain::ids::{AttemptId, EventId, RequestId};
use fencepost_protocol::LeaseRef;

use crate::clock::Moment;

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Hello,
    Pull,
    Accept,
    Progress,
    /// A fresh link.
    Grant,
    /// A commit: verification takes its time.
    Commit,
    /// A fail, release or retain.
    HandBack,
    /// A journal entry.
    Event(EventId),
}

/// One question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) kind: Kind,
    pub(super) lease: Option<LeaseRef>,
    pub(super) sent: Moment,
}

/// All open questions of the current socket. Bounded by what may be open per attempt: one progress,
/// one accept and one last word.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: HashMap<RequestId, Asked>,
}

impl Requests {
    /// A newer pull replaces the older one, as it does at the gateway.
    pub(super) fn sent(
        &mut self,
        id: RequestId,
        kind: Kind,
        lease: Option<LeaseRef>,
        sent: Moment,
    ) {
        if kind == Kind::Pull {
            self.open.retain(|_, asked| asked.kind != Kind::Pull);
        }
        self.open.insert(id, Asked { kind, lease, sent });
    }

    pub(super) fn answered(&mut self, id: Option<RequestId>) -> Option<Asked> {
        self.open.remove(&id?)
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Nobody waits for answers about this attempt any more.
    pub(super) fn forget(&mut self, attempt: AttemptId) {
        self.open
            .retain(|_, asked| asked.lease.is_none_or(|lease| lease.attempt_id != attempt));
    }

    /// Whether a question of this kind about this attempt is open.
    pub(super) fn is_open(&self, kind: Kind, attempt: AttemptId) -> bool {
        self.open.values().any(|asked| {
            asked.kind == kind && asked.lease.is_some_and(|lease| lease.attempt_id == attempt)
        })
    }

    /// Whether an answer that ought to be prompt is overdue.
    pub(super) fn overdue(&self, answer_ms: u64, now: Moment) -> bool {
        self.open.values().any(|asked| match asked.kind {
            Kind::Hello | Kind::Accept | Kind::Progress | Kind::Grant | Kind::HandBack => {
                now.millis_since(asked.sent) >= answer_ms
            }
            // A pull stands for half a minute, and a commit is verified first.
            // Nothing depends on a journal entry.
            Kind::Pull | Kind::Commit | Kind::Event(_) => false,
        })
    }
}
