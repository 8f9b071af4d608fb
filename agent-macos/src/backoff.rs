//! How long to wait before dialling again.
//!
//! A Mac with a lease must be back before the lease ends; an idle one must not stampede a gateway
//! that has just restarted together with all its neighbours. Full jitter does both: the wait is
//! drawn between nothing and a growing bound, also the first time, when one cut has hit them all.

use std::time::Duration;

const FIRST_BOUND_MS: u64 = 500;
/// The first wait of an idle agent whose session broke. Its neighbours' sessions may have broken at
/// the same moment.
const IDLE_BROKEN_BOUND_MS: u64 = 3_000;
/// Idle agents spread out up to this.
const IDLE_BOUND_MS: u64 = 60_000;
/// After this long a session, the next trouble is a new one.
const STABLE_MS: u64 = 10_000;
/// What being told to come back later is worth, in failed tries.
const POLITE_TRIES: u32 = 3;
/// Never so short that a refusing gateway is hammered.
const FLOOR_MS: u64 = 50;

/// Why we dial again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redial {
    /// We gave the socket up ourselves, or it broke under a session that worked: at once, if there
    /// is a lease to lose.
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
        let first_break = why == Redial::Broken && self.failures == 0;
        let tries = match why {
            Redial::Broken | Redial::Failed => self.failures,
            Redial::Asked => self.failures.max(POLITE_TRIES),
        };
        self.failures = tries.saturating_add(1);
        let grown = FIRST_BOUND_MS.saturating_mul(1 << tries.min(16));
        let bound = match holding_max_ms {
            Some(longest) => grown.min(longest),
            None if first_break => IDLE_BROKEN_BOUND_MS,
            None => grown.min(IDLE_BOUND_MS),
        };
        let wait = Duration::from_millis(bound).mul_f64(chance.clamp(0.0, 1.0));
        wait.max(Duration::from_millis(FLOOR_MS.min(bound)))
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

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
        let mut holding = Backoff::default();
        let first = holding.next(Redial::Broken, Some(5_000), 1.0);
        assert!(first <= Duration::from_millis(500), "{first:?}");
        let second = holding.next(Redial::Broken, Some(5_000), 1.0);
        assert_eq!(second, Duration::from_secs(1));
        // Nothing is lost by an idle one that waits a little.
        let idle = Backoff::default().next(Redial::Broken, None, 1.0);
        assert_eq!(idle, Duration::from_secs(3));
    }

    /// How many of 300 agents dial in each tenth of a second, most and on average, over the time
    /// in which the slowest of them could.
    fn peak_and_mean(why: Redial, seed: u64) -> (f64, f64) {
        let mut chances = rand::rngs::StdRng::seed_from_u64(seed);
        let longest = Backoff::default().next(why, None, 1.0).as_millis();
        let mut tenths = vec![0_u32; usize::try_from(longest / 100).unwrap() + 1];
        for _ in 0..300 {
            let wait = Backoff::default().next(why, None, chances.random());
            tenths[usize::try_from(wait.as_millis() / 100).unwrap()] += 1;
        }
        let peak = f64::from(*tenths.iter().max().unwrap());
        (
            peak,
            300.0 / f64::from(u32::try_from(tenths.len()).unwrap()),
        )
    }

    #[test]
    fn three_hundred_agents_whose_gateway_went_away_do_not_dial_on_the_same_tick() {
        for why in [Redial::Broken, Redial::Asked] {
            for seed in 0..20 {
                let (peak, mean) = peak_and_mean(why, seed);
                assert!(peak / mean < 3.0, "{why:?} {seed}: {peak} of {mean}");
            }
        }
    }

    #[test]
    fn every_later_wait_is_drawn_anew_between_nothing_and_the_bound() {
        let mut chances = rand::rngs::StdRng::seed_from_u64(7);
        let mut shortest = Duration::MAX;
        let mut longest = Duration::ZERO;
        for _ in 0..300 {
            let mut backoff = Backoff::default();
            for _ in 0..6 {
                backoff.next(Redial::Failed, None, 1.0);
            }
            let wait = backoff.next(Redial::Failed, None, chances.random());
            shortest = shortest.min(wait);
            longest = longest.max(wait);
        }
        // The bound is 32 s by now.
        assert!(shortest < Duration::from_secs(2), "{shortest:?}");
        assert!(longest > Duration::from_secs(28), "{longest:?}");
        assert!(longest <= Duration::from_secs(32), "{longest:?}");
    }

    #[test]
    fn being_asked_for_patience_lengthens_the_first_wait() {
        let asked = Backoff::default().next(Redial::Asked, None, 1.0);
        assert_eq!(asked, Duration::from_secs(4));
        for other in [Redial::Broken, Redial::Failed] {
            assert!(Backoff::default().next(other, None, 1.0) < asked);
        }
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
