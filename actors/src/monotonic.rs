//! A clock of our own that never goes back and runs while the machine sleeps. `Instant` stands still
//! during sleep: every closed lid would look like a leap of Postgres's clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Counts from the boot of the machine, sleep included.
#[cfg(any(target_os = "linux", target_os = "android"))]
const RUNS_DURING_SLEEP: ClockId = ClockId::Boottime;
/// Apple's monotonic clock counts sleep.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RUNS_DURING_SLEEP: ClockId = ClockId::Monotonic;

/// The time since the machine was booted.
pub(crate) fn now() -> Duration {
    clock_gettime(RUNS_DURING_SLEEP)
        .try_into()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_forward_with_real_time() {
        let before = now();
        std::thread::sleep(Duration::from_millis(20));
        let passed = now().saturating_sub(before);
        assert!(passed >= Duration::from_millis(15), "{passed:?}");
        assert!(before > Duration::ZERO);
    }
}
