//! A brake on guessing: enrollment codes are long, but a claim of one is free to anybody.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failed claims that are answered within one window; the next ones have to wait for the next.
const MOST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts failures of this process, of all callers together: addresses are cheap.
#[derive(Debug)]
pub struct Brake {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began: Instant,
    failures: u32,
}

impl Default for Brake {
    fn default() -> Self {
        let state = State {
            began: Instant::now(),
            failures: 0,
        };
        Self {
            state: Mutex::new(state),
        }
    }
}

impl Brake {
    /// How long callers have to wait, if they have to.
    pub fn wait(&self) -> Option<Duration> {
        let state = self.current();
        let over = state.failures >= MOST;
        over.then(|| WINDOW.saturating_sub(state.began.elapsed()))
    }

    /// A claim failed.
    pub fn failed(&self) {
        let mut state = self.current();
        state.failures = state.failures.saturating_add(1);
    }

    fn current(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while it was held leaves two plain numbers, which are as good as any.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_old(Instant::now());
        state
    }
}

impl State {
    /// Begins a new window if the old one is over; the age of the window.
    fn forget_old(&mut self, now: Instant) -> Duration {
        let age = now.saturating_duration_since(self.began);
        if age < WINDOW {
            return age;
        }
        self.began = now;
        self.failures = 0;
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_failures_are_answered_and_then_everybody_waits() {
        let brake = Brake::default();
        for _ in 0..MOST {
            assert_eq!(brake.wait(), None);
            brake.failed();
        }
        assert!(
            brake
                .wait()
                .is_some_and(|wait| wait <= WINDOW && wait > Duration::ZERO)
        );
    }

    #[test]
    fn a_new_window_forgets_the_old_one() {
        let began = Instant::now();
        let mut state = State {
            began,
            failures: MOST,
        };
        assert_eq!(state.forget_old(began + WINDOW / 2), WINDOW / 2);
        assert_eq!(state.failures, MOST);
        state.forget_old(began + WINDOW);
        assert_eq!(state.failures, 0);
    }
}
