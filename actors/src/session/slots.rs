//! Which of a device's slots are taken, and by what.
//!
//! Not a counter: attempts, filled from the attempt rows and from offers, and emptied only by a
//! [`FinalizedAttempt`], the proof that an end is durable.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_domain::ids::AttemptId;
use fencepost_protocol::LeaseRef;
use fencepost_store::FinalizedAttempt;

/// The slots of one device as its session knows them.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    /// With the lease that the session's agent knows; `None` for a claim, which others work on.
    taken: BTreeMap<AttemptId, Option<LeaseRef>>,
}

impl SlotTable {
    /// Takes a slot for an attempt, if it has none yet, and notes its lease.
    pub(super) fn hold(&mut self, attempt: AttemptId, lease: Option<LeaseRef>) {
        self.taken.insert(attempt, lease);
    }

    /// Frees the slot of an attempt whose end is durable; false if it had none.
    pub(super) fn release(&mut self, finalized: &FinalizedAttempt) -> bool {
        self.taken.remove(&finalized.attempt()).is_some()
    }

    /// The lease under which the session's agent holds an attempt.
    pub(super) fn lease_of(&self, attempt: AttemptId) -> Option<LeaseRef> {
        self.taken.get(&attempt).copied().flatten()
    }

    /// Those that have a slot and are not in `live`.
    pub(super) fn missing_from(&self, live: &BTreeSet<AttemptId>) -> Vec<AttemptId> {
        let gone = self.taken.keys().filter(|attempt| !live.contains(attempt));
        gone.copied().collect()
    }
}
