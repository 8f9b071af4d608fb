//! Whether a device that keeps failing is given more work: derived from how its last attempts ended,
//! never from a counter that could drift.

use std::time::Duration;

use time::OffsetDateTime;

/// How many of a device's last attempts are looked at.
pub const LOOK_BACK: usize = 12;
/// So many bad ends in a row and the device gets no work for a long time.
const QUARANTINE_AFTER: usize = 10;
const QUARANTINE: Duration = Duration::from_hours(1);
/// The first failures are anybody's bad luck.
const FREE: u32 = 2;
const BASE: Duration = Duration::from_secs(1);
const MAX_BACK_OFF: Duration = Duration::from_mins(5);

/// How one of a device's attempts ended, as far as the device is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// It is not, or the attempt is live.
    None,
    /// It gave the offer back, or did not answer it.
    Returned,
    /// It failed or lost the attempt, and quickly.
    Failed,
    /// A host that the buyer chose gave no input: that says nothing of the device, good or bad.
    Elsewhere,
}

/// One of a device's last attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastAttempt {
    /// When it ended; `None` while it is live.
    pub ended_at: Option<OffsetDateTime>,
    /// Whether the device is to blame.
    pub blame: Blame,
}

/// Whether a device may be leased to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceHealth {
    /// It may.
    Open,
    /// Not before this.
    BackedOff {
        /// When it may again.
        until: OffsetDateTime,
    },
    /// Not for a long time: somebody should look at it.
    Quarantined {
        /// When it is tried once more.
        until: OffsetDateTime,
    },
}

impl DeviceHealth {
    /// Whether nothing is leased to it at `now`.
    pub fn is_closed(self, now: OffsetDateTime) -> bool {
        match self {
            Self::Open => false,
            Self::BackedOff { until } | Self::Quarantined { until } => now < until,
        }
    }
}

/// Judges a device by its last attempts, newest first. Offers that it gives back only back it off;
/// attempts that it fails lead to quarantine.
pub fn judge(past: &[PastAttempt]) -> DeviceHealth {
    let ended = past
        .iter()
        .filter(|attempt| attempt.ended_at.is_some() && attempt.blame != Blame::Elsewhere);
    let streak: Vec<_> = ended
        .take_while(|attempt| attempt.blame != Blame::None)
        .collect();
    let failed = streak
        .iter()
        .filter(|attempt| attempt.blame == Blame::Failed)
        .count();
    // The newest lease is not always the last to end.
    let Some(last) = streak.iter().filter_map(|attempt| attempt.ended_at).max() else {
        return DeviceHealth::Open;
    };
    if failed >= QUARANTINE_AFTER {
        return DeviceHealth::Quarantined {
            until: last + QUARANTINE,
        };
    }
    match u32::try_from(streak.len())
        .unwrap_or(u32::MAX)
        .checked_sub(FREE + 1)
    {
        None => DeviceHealth::Open,
        Some(n) => {
            let doubled = BASE.saturating_mul(2u32.saturating_pow(n));
            DeviceHealth::BackedOff {
                until: last + doubled.min(MAX_BACK_OFF),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: OffsetDateTime = time::macros::datetime!(2026-01-01 12:00 UTC);

    fn past(bad: &[bool]) -> Vec<PastAttempt> {
        let blame = |bad: &bool| if *bad { Blame::Failed } else { Blame::None };
        let one = |bad| PastAttempt {
            ended_at: Some(NOW),
            blame: blame(bad),
        };
        bad.iter().map(one).collect()
    }

    #[test]
    fn a_device_without_a_bad_streak_is_open() {
        assert_eq!(judge(&[]), DeviceHealth::Open);
        assert_eq!(
            judge(&past(&[false, true, true, true, true])),
            DeviceHealth::Open
        );
        assert_eq!(judge(&past(&[true, true, false])), DeviceHealth::Open);
    }

    #[test]
    fn a_streak_backs_off_longer_and_longer_and_ends_in_quarantine() {
        let until = |n| match judge(&past(&vec![true; n])) {
            DeviceHealth::BackedOff { until } => (until - NOW).whole_seconds(),
            other => panic!("{n} failures: {other:?}"),
        };
        assert_eq!([3, 4, 5, 9].map(until), [1, 2, 4, 64]);
        let quarantined = judge(&past(&[true; 10]));
        assert!(matches!(quarantined, DeviceHealth::Quarantined { .. }));
        assert!(quarantined.is_closed(NOW));
        assert!(!quarantined.is_closed(NOW + QUARANTINE));
    }

    #[test]
    fn one_good_end_opens_a_device_again() {
        let mut ends = vec![true; 9];
        ends.insert(0, false);
        assert_eq!(judge(&past(&ends)), DeviceHealth::Open);
    }

    #[test]
    fn inputs_that_buyers_keep_elsewhere_neither_close_a_device_nor_open_it() {
        let elsewhere = PastAttempt {
            ended_at: Some(NOW),
            blame: Blame::Elsewhere,
        };
        assert_eq!(judge(&[elsewhere; LOOK_BACK]), DeviceHealth::Open);
        let mut ends = past(&[true, true, true]);
        ends.insert(1, elsewhere);
        assert_eq!(judge(&ends), judge(&past(&[true, true, true])));
    }

    #[test]
    fn live_attempts_say_nothing() {
        let mut ends = past(&[true, true, true]);
        ends.insert(
            0,
            PastAttempt {
                ended_at: None,
                blame: Blame::None,
            },
        );
        assert!(matches!(judge(&ends), DeviceHealth::BackedOff { .. }));
    }

    #[test]
    fn a_device_that_gives_offers_back_is_backed_off_but_never_quarantined() {
        let returned = PastAttempt {
            ended_at: Some(NOW),
            blame: Blame::Returned,
        };
        let health = judge(&[returned; LOOK_BACK]);
        assert_eq!(
            health,
            DeviceHealth::BackedOff {
                until: NOW + MAX_BACK_OFF
            }
        );
    }
}
