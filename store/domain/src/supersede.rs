//! Two copies of one agent: each takes the device's session over from the other, for ever.
//!
//! One copy that is restarted, or moved to another Mac, does that once. Copies that keep at it are
//! told apart by how often it happens, and stopped, since neither could finish anything.

use time::{Duration, OffsetDateTime};

/// The take-over that is one too many.
pub const MAX_SUPERSEDES: usize = 3;
/// Within this time.
pub const SUPERSEDE_WINDOW: Duration = Duration::minutes(10);

/// What a take-over of a live session by another agent process means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supersede {
    /// It may happen; these are the times to remember.
    Remember(Vec<OffsetDateTime>),
    /// The device is in two places.
    TooOften,
}

/// Judges a take-over at `now`, after those at `earlier`.
pub fn judge(earlier: &[OffsetDateTime], now: OffsetDateTime) -> Supersede {
    // A time that is yet to come was written by a clock that has gone back since.
    let recent = earlier
        .iter()
        .filter(|at| **at > now - SUPERSEDE_WINDOW && **at <= now);
    let mut times: Vec<_> = recent.copied().collect();
    times.push(now);
    if times.len() >= MAX_SUPERSEDES {
        Supersede::TooOften
    } else {
        Supersede::Remember(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: OffsetDateTime = time::macros::datetime!(2026-01-01 12:00 UTC);

    #[test]
    fn the_third_within_ten_minutes_is_too_often() {
        let first = NOW - SUPERSEDE_WINDOW + Duration::MICROSECOND;
        assert_eq!(judge(&[], NOW), Supersede::Remember(vec![NOW]));
        assert_eq!(judge(&[first], NOW), Supersede::Remember(vec![first, NOW]));
        assert_eq!(judge(&[first, first], NOW), Supersede::TooOften);
    }

    #[test]
    fn what_is_ten_minutes_ago_is_forgotten() {
        let old = NOW - SUPERSEDE_WINDOW;
        assert_eq!(judge(&[old, old], NOW), Supersede::Remember(vec![NOW]));
    }

    #[test]
    fn a_take_over_that_is_yet_to_come_does_not_count() {
        let later = NOW + Duration::days(730);
        let judged = judge(&[later, later], NOW);
        assert_eq!(judged, Supersede::Remember(vec![NOW]));
    }
}
