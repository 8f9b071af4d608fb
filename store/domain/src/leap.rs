//! Leaps of the authority's clock: time that it shows and nobody has lived.
//!
//! A lease that ended in such a time was not let run out by its holder, so its loss is charged to
//! nobody. Whoever ends leases looks at both clocks each time ([`LeapWatch`]).

use std::time::Duration;

use time::OffsetDateTime;

use crate::duration::LeaseDuration;

/// Less than this is the clock being put right, or a statement that took long.
const SMALLEST: time::Duration = time::Duration::seconds(5);

/// The leases that end in it were shortened by a leap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leap {
    /// What the clock showed before.
    pub from: OffsetDateTime,
    /// The end of the longest lease that was given before.
    pub to: OffsetDateTime,
}

/// When a watcher looked, by its own clock: the reading lies between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// Its own clock before it asked.
    pub before: Duration,
    /// Its own clock after it was answered.
    pub after: Duration,
}

/// Compares how far the authority's clock went with how far the watcher's own did, which must run
/// while the watcher's machine sleeps.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeapWatch {
    last: Option<(OffsetDateTime, Duration)>,
    leap: Option<Leap>,
}

impl LeapWatch {
    /// The clock showed `now`; leases are `ttl` long. Tells of the leap whose leases can still end.
    pub fn observe(
        &mut self,
        now: OffsetDateTime,
        looked: Looked,
        ttl: LeaseDuration,
    ) -> Option<Leap> {
        if let Some((was, own)) = self.last.replace((now, looked.before)) {
            // The most that can have passed: a slow answer is no leap.
            let passed = looked.after.saturating_sub(own);
            let unlived = (now - was) - time::Duration::try_from(passed).unwrap_or_default();
            if unlived > SMALLEST {
                self.leap = Some(Leap {
                    from: was,
                    to: now + ttl.signed(),
                });
            }
        }
        // No lease from before ends later: a clock that comes back, after however long, takes the
        // rest of its leap with it.
        self.leap = self
            .leap
            .map(|leap| Leap {
                to: leap.to.min(now + ttl.signed()),
                ..leap
            })
            .filter(|leap| (leap.from..=leap.to).contains(&now));
        self.leap
    }
}

#[cfg(test)]
#[path = "leap_tests.rs"]
mod tests;
