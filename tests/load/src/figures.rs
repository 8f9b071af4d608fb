//! From what was noted to what is said: percentiles, and figures per job.

use std::time::Duration;

use serde::Serialize;

/// Three percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    /// Half are faster.
    pub(crate) p50: f64,
    /// 95 of 100 are faster.
    pub(crate) p95: f64,
    /// 99 of 100 are faster.
    pub(crate) p99: f64,
}

impl Percentiles {
    /// Of times, each by nearest rank. All zero without any.
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
            let time = times.get(rank).copied().unwrap_or_default();
            round(time.as_secs_f64() * 1_000.0, 2)
        };
        Self {
            p50: at(50),
            p95: at(95),
            p99: at(99),
        }
    }
}

/// CPU seconds by who used them; `None` is not measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct CpuSeconds {
    /// All processes of the server, if it is ours.
    pub(crate) postgres: Option<f64>,
    /// All gateways.
    pub(crate) gateway: Option<f64>,
    /// This process.
    pub(crate) load: Option<f64>,
}

impl CpuSeconds {
    /// What was used from `before` until now, times `factor`.
    pub(crate) fn since(self, before: Self, factor: f64) -> Self {
        let used = |now: Option<f64>, then: Option<f64>| {
            now.zip(then)
                .map(|(now, then)| round((now - then) * factor, 3))
        };
        Self {
            postgres: used(self.postgres, before.postgres),
            gateway: used(self.gateway, before.gateway),
            load: used(self.load, before.load),
        }
    }
}

/// Rounds for people and for JSON alike.
pub(crate) fn round(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// A count per something, which there is at least one of.
#[expect(clippy::cast_precision_loss, reason = "counts of a run are small")]
pub(crate) fn per(count: u64, jobs: u64) -> f64 {
    count as f64 / jobs.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let times = (1..=200).map(Duration::from_millis).rev().collect();
        let of = Percentiles::of(times);
        assert_eq!(format!("{} {} {}", of.p50, of.p95, of.p99), "100 190 198");
        let one = Percentiles::of(vec![Duration::from_millis(7)]);
        let none = Percentiles::of(Vec::new());
        assert_eq!(format!("{} {}", one.p99, none.p50), "7 0");
    }

    #[test]
    fn what_was_not_measured_stays_unmeasured() {
        let none = CpuSeconds {
            postgres: None,
            gateway: Some(1.0),
            load: Some(1.0),
        };
        let later = CpuSeconds {
            postgres: Some(5.0),
            gateway: Some(1.5),
            load: None,
        };
        let used = later.since(none, 2.0);
        assert_eq!(
            (used.postgres, used.gateway, used.load),
            (None, Some(1.0), None)
        );
    }
}
