//! How the process reports about itself: log lines, and numbers for `/metrics`.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::config::{ConfigError, LogFormat, TelemetryConfig};

/// Upper bounds of the histograms, in seconds: from one statement to one verification.
const BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// Starts logging to stderr. Does nothing in a process that logs already.
pub fn init_logs(config: &TelemetryConfig) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| ConfigError::about("telemetry.level", error))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match config.format {
        LogFormat::Text => builder
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal())
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(error, "logging was started before");
    }
    Ok(())
}

/// The recorder of this process, installed at the first call.
pub fn metrics() -> Result<PrometheusHandle, ConfigError> {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    if let Some(handle) = HANDLE.get() {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| ConfigError(format!("metrics cannot be collected: {error}")))?;
    describe();
    Ok(HANDLE.get_or_init(|| handle).clone())
}

/// What becomes of webhooks.
fn describe_webhooks() {
    metrics::describe_counter!(
        "fencepost_webhook_deliveries_total",
        "Tries of webhook deliveries, by what came of them"
    );
    metrics::describe_gauge!(
        "fencepost_webhook_deliveries_pending",
        "Webhook deliveries that are not over"
    );
    metrics::describe_gauge!(
        "fencepost_webhook_overdue_seconds",
        metrics::Unit::Seconds,
        "How long the webhook delivery that is longest overdue has waited"
    );
}

/// The gateway's own numbers; each crate counts its own.
fn describe() {
    metrics::describe_counter!(
        "fencepost_http_requests_total",
        "Requests by method, route and status"
    );
    metrics::describe_histogram!(
        "fencepost_http_seconds",
        metrics::Unit::Seconds,
        "Time to the head of the answer, by route"
    );
    metrics::describe_counter!(
        "fencepost_mailbox_refused_total",
        "Messages that an actor had no room for"
    );
    metrics::describe_counter!("fencepost_tx_total", "Transactions by name and outcome");
    metrics::describe_counter!(
        "fencepost_invariant_violations_total",
        "Mistakes of ours: rows contradicted each other, and the write was rolled back"
    );
    // There before anything happens, so that an alarm can be set on it.
    for id in [
        "attempts",
        "jobs",
        "devices",
        "org_accounts",
        "queued_job_has_live_attempt",
    ] {
        metrics::counter!("fencepost_invariant_violations_total", "id" => id).absolute(0);
    }
    metrics::describe_counter!(
        "fencepost_fenced_total",
        "Refusals by the fence, by operation and code"
    );
    describe_webhooks();
    metrics::describe_gauge!("fencepost_queue_jobs", "Jobs that wait, by service");
    metrics::describe_gauge!(
        "fencepost_queue_oldest_seconds",
        metrics::Unit::Seconds,
        "How long the oldest waiting job has waited, by service"
    );
    metrics::describe_gauge!("fencepost_attempts", "Live attempts, by status");
    metrics::describe_gauge!("fencepost_slots", "Slots of all devices, taken and free");
    metrics::describe_gauge!(
        "fencepost_event_streams",
        "Streams of jobs' events to buyers"
    );
    metrics::describe_counter!(
        "fencepost_event_streams_cut_total",
        "Streams of events that were cut off because nobody read them"
    );
    metrics::describe_gauge!("fencepost_devices_connected", "Devices with an open socket");
    metrics::describe_gauge!(
        "fencepost_clock_behind_seconds",
        metrics::Unit::Seconds,
        "How far Postgres's clock is behind its mark"
    );
    metrics::describe_gauge!(
        "fencepost_clock_ahead_seconds",
        metrics::Unit::Seconds,
        "How far Postgres's clock has leapt ahead of this gateway's own"
    );
    metrics::describe_histogram!(
        "fencepost_tx_seconds",
        metrics::Unit::Seconds,
        "Length of transactions by name"
    );
}
