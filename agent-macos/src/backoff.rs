//! How long to wait before dialling again.
//!
//! A Mac with a lease must be back before the lease ends; an idle one must not stampede a gateway
//! that has just restarted together with all its neighbours. Full jitter does both: the wait is
//! drawn between nothing and a growing bound.

use std::time::Duration;

const FIRST_BOUND_MS: u64 = 500;
/// Idle agents spread out up to this.
const IDLE_BOUND_MS: u64 = 60_000;
/// After this long a session, the next trouble is a new one.
const STABLE_MS: u64 = 10_000;
/// What being told to come back later is worth, in failed tries.
const POLITE_TRIES: u32 = 4;
/// Never so short that a refusing gateway is hammered.
const FLOOR_MS: u64 = 50;

/// Why we dial again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redial {
    /// We gave the socket up ourselves, or it broke under a session that worked: at once.
    Broken,
    /// Dialling failed, or the session never began.
    Failed,
    /// The other side asked for patience (1012, 1013, 503).
    Asked,
}

impl Redial {
    /// The same without the right to hurry.
    pub fn patient(self) -> Self {
        match self {
            Self::Broken | Self::Failed => Self::Failed,
            Self::Asked => Self::Asked,
        }
    }
}

/// Counts the failures in a row.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// A session ended after this long. A long one wipes the slate.
    pub fn session_lasted(&mut self, millis: u64) {
        if millis >= STABLE_MS {
            self.failures = 0;
        }
    }

    /// The wait before the next try. `chance` is a draw from 0 to 1; `holding_max_ms` the longest
    /// wait that a held lease allows, none if no lease is held.
    pub fn next(&mut self, why: Redial, holding_max_ms: Option<u64>, chance: f64) -> Duration {
        let tries = match why {
            Redial::Broken if self.failures == 0 => {
                self.failures = 1;
                return Duration::from_millis(FLOOR_MS);
            }
            Redial::Broken | Redial::Failed => self.failures,
            Redial::Asked => self.failures.max(POLITE_TRIES),
        };
        self.failures = tries.saturating_add(1);
        let bound = FIRST_BOUND_MS.saturating_mul(1 << tries.min(16));
        let bound = bound.min(holding_max_ms.unwrap_or(IDLE_BOUND_MS));
        let wait = Duration::from_millis(bound).mul_f64(chance.clamp(0.0, 1.0));
        wait.max(Duration::from_millis(FLOOR_MS.min(bound)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_bounds_every_wait_and_idle_agents_spread_up_to_a_minute() {
        let mut holding = Backoff::default();
        let mut idle = Backoff::default();
        for _ in 0..40 {
            assert!(holding.next(Redial::Asked, Some(5_000), 1.0) <= Duration::from_secs(5));
            assert!(idle.next(Redial::Failed, None, 1.0) <= Duration::from_mins(1));
        }
        assert_eq!(idle.next(Redial::Failed, None, 1.0), Duration::from_mins(1));
        assert_eq!(
            idle.next(Redial::Failed, None, 0.5),
            Duration::from_secs(30)
        );
    }

    #[test]
    fn a_broken_session_is_replaced_at_once_but_not_in_a_loop() {
        let mut backoff = Backoff::default();
        assert!(backoff.next(Redial::Broken, None, 1.0) <= Duration::from_millis(50));
        assert!(backoff.next(Redial::Broken, None, 1.0) >= Duration::from_millis(500));
    }

    #[test]
    fn being_asked_for_patience_lengthens_the_first_wait() {
        let wait = Backoff::default().next(Redial::Asked, None, 1.0);
        assert_eq!(wait, Duration::from_secs(8));
    }

    #[test]
    fn only_a_session_that_lasted_wipes_the_slate() {
        let mut backoff = Backoff::default();
        backoff.next(Redial::Failed, None, 1.0);
        backoff.next(Redial::Failed, None, 1.0);
        backoff.session_lasted(500);
        assert_eq!(
            backoff.next(Redial::Failed, None, 1.0),
            Duration::from_secs(2)
        );
        backoff.session_lasted(10_000);
        assert_eq!(
            backoff.next(Redial::Failed, None, 1.0),
            Duration::from_millis(500)
        );
    }
}
