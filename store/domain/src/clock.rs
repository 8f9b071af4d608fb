//! The authority's clock, and when it is not to be believed.
//!
//! How far the clock has ever been is stored: the mark. A clock that is behind its mark has gone
//! back, and nothing that compares an expiry can be decided until it has caught up. Whoever moves
//! the mark forward compares the clock with its own monotonic one first ([`ClockWatch`]), so that a
//! clock that leaps ahead does not take the mark with it.

use std::time::Duration;

use time::OffsetDateTime;

/// How far the clock may move apart from a watcher's own before the watcher distrusts it.
pub const MOST_APART: time::Duration = time::Duration::MINUTE;
/// Two good clocks drift apart by less than one part in this many.
const DRIFT: i32 = 1_000;

/// The clock and its mark, as one statement read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// What the clock shows.
    pub now: OffsetDateTime,
    /// What it has shown already, as far as is stored.
    pub mark: OffsetDateTime,
}

impl ClockReading {
    /// How far the clock is behind its mark, which is how long nothing can expire; `None` if it is
    /// not, as it should be.
    pub fn regressed_by(self) -> Option<Duration> {
        // A negative difference is no duration.
        Duration::try_from(self.mark - self.now)
            .ok()
            .filter(|by| !by.is_zero())
    }
}

/// What a watcher makes of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockState {
    /// It may be believed, and the mark moves with it.
    Trusted,
    /// It is behind its mark by this much.
    Behind(Duration),
    /// It has leapt ahead of the watcher's own clock by this much: the mark stays.
    Ahead(Duration),
}

/// Compares the authority's clock with a monotonic one of the watcher's own, which must run while
/// the watcher's machine sleeps.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClockWatch {
    base: Option<Base>,
    /// The last reading that was trusted: the mark is there if nobody else has moved it since.
    trusted: Option<OffsetDateTime>,
}

/// What the authority's clock shows where the watcher's own shows `own`, if all is well.
#[derive(Debug, Clone, Copy)]
struct Base {
    clock: OffsetDateTime,
    own: Duration,
}

impl ClockWatch {
    /// Judges a reading that was made when the watcher's own clock showed `own`. The first reading
    /// has nothing to be compared with but the mark.
    pub fn observe(&mut self, reading: ClockReading, own: Duration) -> ClockState {
        let state = self.judge(reading, own);
        if state == ClockState::Trusted {
            self.trusted = Some(reading.now);
        }
        state
    }

    fn judge(&mut self, reading: ClockReading, own: Duration) -> ClockState {
        let observed = Base {
            clock: reading.now,
            own,
        };
        if let Some(by) = reading.regressed_by() {
            return ClockState::Behind(by);
        }
        let Some(base) = self.base else {
            self.base = Some(observed);
            return ClockState::Trusted;
        };
        let passed = own.saturating_sub(base.own).try_into().unwrap_or_default();
        let expected = base.clock.saturating_add(passed);
        let apart = reading.now - expected;
        // Somebody else has moved the mark up to the clock: another watcher, or an operator.
        let is_vouched_for = reading.now - reading.mark <= MOST_APART
            && self.trusted.is_some_and(|trusted| reading.mark > trusted);
        if apart > MOST_APART && !is_vouched_for {
            return ClockState::Ahead(apart.try_into().unwrap_or_default());
        }
        self.base = Some(if apart.abs() > MOST_APART {
            observed
        } else {
            // Clocks drift; a leap is not followed, however small.
            let drift = passed / DRIFT;
            Base {
                clock: expected.saturating_add(apart.clamp(-drift, drift)),
                own,
            }
        });
        ClockState::Trusted
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
