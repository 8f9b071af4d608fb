//! Whether a device that keeps failing is given more work: derived from how its last attempts ended,
//! never from a counter that could drift.

use std::time::Duration;

use time::OffsetDateTime;

/// How many of a device's last attempts are looked at.
pub const LOOK_BACK: usize = 12;
/// A failure later than this after the lease says more about the job than about the device.
pub const QUICK: Duration = Duration::from_mins(1);
/// So many bad ends in a row and the device gets no work for a long time.
const QUARANTINE_AFTER: u32 = 10;
const QUARANTINE: Duration = Duration::from_hours(1);
/// The first failures are anybody's bad luck.
const FREE: u32 = 2;
const BASE: Duration = Duration::from_secs(1);
const MAX_BACK_OFF: Duration = Duration::from_mins(5);

/// How one of a device's attempts ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastAttempt {
    /// When it ended; `None` while it is live.
    pub ended_at: Option<OffsetDateTime>,
    /// Whether the device is to blame: it failed or lost the attempt quickly, or gave its offer back.
    pub bad: bool,
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

/// Judges a device by its last attempts, newest first.
pub fn judge(past: &[PastAttempt]) -> DeviceHealth {
    let ended: Vec<_> = past
        .iter()
        .filter(|attempt| attempt.ended_at.is_some())
        .collect();
    let streak = ended.iter().take_while(|attempt| attempt.bad).count();
    let streak = u32::try_from(streak).unwrap_or(u32::MAX);
    // The newest lease is not always the last to end.
    let last = ended
        .iter()
        .take(streak as usize)
        .filter_map(|attempt| attempt.ended_at)
        .max();
    match last {
        Some(last) if streak >= QUARANTINE_AFTER => DeviceHealth::Quarantined {
            until: last + QUARANTINE,
        },
        Some(last) if streak > FREE => {
            let doubled = BASE.saturating_mul(2u32.saturating_pow(streak - FREE - 1));
            DeviceHealth::BackedOff {
                until: last + doubled.min(MAX_BACK_OFF),
            }
        }
        Some(_) | None => DeviceHealth::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: OffsetDateTime = time::macros::datetime!(2026-01-01 12:00 UTC);

    fn past(bad: &[bool]) -> Vec<PastAttempt> {
        bad.iter()
            .map(|bad| PastAttempt {
                ended_at: Some(NOW),
                bad: *bad,
            })
            .collect()
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
    fn live_attempts_say_nothing() {
        let mut ends = past(&[true, true, true]);
        ends.insert(
            0,
            PastAttempt {
                ended_at: None,
                bad: false,
            },
        );
        assert!(matches!(judge(&ends), DeviceHealth::BackedOff { .. }));
    }
}
