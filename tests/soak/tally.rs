//! What was done, for the summary.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts of what happened.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Gateways killed.
    pub(crate) gateways: AtomicU32,
    /// Real agents killed.
    pub(crate) agents: AtomicU32,
    /// Immediate shutdowns of Postgres.
    pub(crate) postgres: AtomicU32,
    /// Devices that forgot everything.
    pub(crate) forgotten: AtomicU32,
    /// Leases that were slept through.
    pub(crate) slept: AtomicU32,
    stale_accepted: AtomicU32,
}

/// Counts one.
pub(crate) fn one(count: &AtomicU32) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Tally {
    /// A commit was accepted under a pair that a newer one had replaced.
    pub(crate) fn accepted_stale(&self) {
        one(&self.stale_accepted);
    }

    /// How often.
    pub(crate) fn stale_accepted(&self) -> u32 {
        self.stale_accepted.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
        write!(
            f,
            "kills: {} gateways, {} agents, {} Postgres; devices: {} forgot, {} slept too long, {} \
             stale commits accepted",
            count(&self.gateways),
            count(&self.agents),
            count(&self.postgres),
            count(&self.forgotten),
            count(&self.slept),
            self.stale_accepted()
        )
    }
}
