//! Whether the loops are alive, without asking them: a busy actor cannot answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When a loop last came round. Shared between the loop and whoever judges it.
#[derive(Debug, Clone)]
pub struct LoopHealth {
    /// Its name.
    pub name: &'static str,
    period: Duration,
    born: Instant,
    /// Milliseconds from `born` to the end of the last round.
    last: Arc<AtomicU64>,
}

impl LoopHealth {
    /// A loop that should come round once a period.
    pub fn new(name: &'static str, period: Duration) -> Self {
        Self {
            name,
            period,
            born: Instant::now(),
            last: Arc::new(AtomicU64::new(0)),
        }
    }

    /// The loop finished a round.
    pub fn finished(&self) {
        let age = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(age, Ordering::Relaxed);
    }

    /// How long ago that was.
    pub fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(last)
    }

    /// Bad when no round was finished within three periods (and at least three seconds).
    pub fn is_good(&self) -> bool {
        self.age() <= (self.period * 3).max(Duration::from_secs(3))
    }
}
