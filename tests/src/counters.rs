//! What the code under test has counted in its metrics, for the whole process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

static COUNTS: Mutex<Option<HashMap<String, Arc<Count>>>> = Mutex::new(None);
static INSTALL: Once = Once::new();

#[derive(Default)]
struct Count(AtomicU64);

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }
    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

/// Begins to count. Call it before what is to be counted.
pub fn install() {
    INSTALL.call_once(|| {
        metrics::set_global_recorder(Counting).expect("nobody else records in a test");
    });
}

/// The counter `name` with this label.
pub fn count(name: &str, label: &str, value: &str) -> u64 {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    counts
        .iter()
        .flatten()
        .filter(|(key, _)| **key == format!("{name} {label}={value}"))
        .map(|(_, count)| count.0.load(Ordering::Relaxed))
        .sum()
}

struct Counting;

impl Recorder for Counting {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get_or_insert_default().entry(name).or_default();
        Counter::from_arc(Arc::clone(count))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
