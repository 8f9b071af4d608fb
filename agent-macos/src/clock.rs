//! The one clock of the agent: it runs while the Mac sleeps.
//!
//! `std::time::Instant` stands still during sleep on Linux and on macOS, so a lease measured with
//! it would look alive after a night with the lid closed. Wall clocks jump. Neither is used for
//! leases; this is.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Counts from the boot of the machine, sleep included.
#[cfg(any(target_os = "linux", target_os = "android"))]
const RUNS_DURING_SLEEP: ClockId = ClockId::Boottime;
/// Apple's monotonic clock counts sleep.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RUNS_DURING_SLEEP: ClockId = ClockId::Monotonic;

/// A point in time since the machine was booted, in milliseconds. Means nothing to other machines
/// and nothing after a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// A point by its milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since boot.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This much later.
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(millis(wait)))
    }

    /// This many milliseconds later.
    pub const fn after_millis(self, wait_ms: u64) -> Self {
        Self(self.0.saturating_add(wait_ms))
    }

    /// Milliseconds from `earlier` to here; zero if it is not earlier.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The time by the clock that runs during sleep.
pub fn now() -> Moment {
    let time = clock_gettime(RUNS_DURING_SLEEP);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment(
        seconds
            .saturating_mul(1000)
            .saturating_add(nanos / 1_000_000),
    )
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_forward_with_real_time() {
        let before = now();
        std::thread::sleep(Duration::from_millis(20));
        let passed = now().millis_since(before);
        assert!((15..2_000).contains(&passed), "{passed}");
    }

    #[test]
    fn differences_never_go_below_zero_and_sums_never_overflow() {
        let early = Moment::from_millis(5);
        let late = Moment::from_millis(9);
        assert_eq!(early.millis_since(late), 0);
        assert_eq!(late.after(Duration::MAX), Moment::from_millis(u64::MAX));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_is_the_clock_that_counts_sleep() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let ours = Duration::from_millis(now().as_millis()).as_secs_f64();
        assert!((ours - seconds).abs() < 2.0, "{ours} {seconds}");
    }
}
