//! How slow a host may be.

use std::time::Duration;

use crate::clock::{self, Moment};

/// The least that must come within the time that is given, in bytes: slower hosts hold a slot for nothing.
const SLOWEST_BYTES: u64 = 256 * 1024;

/// Whether enough comes.
pub(super) struct Pace {
    within: Duration,
    until: Moment,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(within: Duration) -> Self {
        Self {
            within,
            until: clock::now().after(within),
            bytes: 0,
        }
    }

    pub(super) fn is_kept(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if clock::now() < self.until {
            return true;
        }
        let is_kept = self.bytes >= SLOWEST_BYTES;
        *self = Self::new(self.within);
        is_kept
    }
}
