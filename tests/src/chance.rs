//! Choices that can be repeated.

use std::time::Duration;

/// A small generator (splitmix64); good enough to choose whom to kill.
pub struct Chance(u64);

impl Chance {
    /// The choices of one of many who share a seed.
    pub fn new(seed: u64, who: u64) -> Self {
        Self(seed.wrapping_mul(1_000_003).wrapping_add(who))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a number of things");
        usize::try_from(self.next() % bound).expect("it is smaller")
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Between two lengths of time, in milliseconds.
    pub fn millis(&mut self, from: usize, to: usize) -> Duration {
        let millis = from + self.below(to - from);
        Duration::from_millis(u64::try_from(millis).expect("a length of time"))
    }
}
