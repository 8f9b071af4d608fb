//! Which of a device's slots are taken, and by what.
//!
//! Not a counter: a set of attempts, filled from the attempt rows and from offers, and emptied only
//! by a [`FinalizedAttempt`], the proof that an end is durable.

use std::collections::BTreeSet;

use fencepost_domain::ids::AttemptId;
use fencepost_store::FinalizedAttempt;

/// The slots of one device as its session knows them.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    taken: BTreeSet<AttemptId>,
}

impl SlotTable {
    /// Takes a slot for an attempt, if it has none yet.
    pub(super) fn hold(&mut self, attempt: AttemptId) {
        self.taken.insert(attempt);
    }

    /// Frees the slot of an attempt whose end is durable; false if it had none.
    pub(super) fn release(&mut self, finalized: &FinalizedAttempt) -> bool {
        self.taken.remove(&finalized.attempt())
    }

    /// Whether an attempt has a slot.
    pub(super) fn holds(&self, attempt: AttemptId) -> bool {
        self.taken.contains(&attempt)
    }

    /// Those that have a slot and are not in `live`.
    pub(super) fn missing_from(&self, live: &BTreeSet<AttemptId>) -> Vec<AttemptId> {
        self.taken.difference(live).copied().collect()
    }
}
