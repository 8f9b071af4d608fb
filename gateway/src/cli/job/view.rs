//! A job as the gateway shows it, as far as the terminal looks at it.

use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::JobError;
use crate::cli::amount::show;

/// What is read of `GET /v1/jobs/{id}`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) service: String,
    pub(super) status: String,
    pub(super) phase: Option<String>,
    pub(super) percent: Option<f64>,
    pub(super) created_at: String,
    pub(super) failure: Option<Failure>,
    pub(super) output: Option<Output>,
    #[serde(default)]
    pub(super) money: Money,
}

/// Why a job failed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: Option<String>,
}

/// What there is to fetch.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Output {
    pub(super) sha256: String,
    pub(super) size_bytes: Option<u64>,
    pub(super) filename: Option<String>,
    pub(super) deleted_at: Option<String>,
}

/// What a service costs.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Price {
    base_micros: i64,
    per_minute_micros: i64,
}

/// An input of a service, or a family of them.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Slot {
    /// Its name, with `{n}` for the number of one of a family.
    pub(super) name: String,
    pub(super) summary: String,
    /// `file` or `bundle`; gateways that say nothing know files alone.
    #[serde(default)]
    pub(super) form: String,
    pub(super) min: u8,
    pub(super) max: u8,
}

impl Slot {
    /// All inputs of a service, as the catalogue says them.
    pub(super) fn all_of(service: &Value) -> Vec<Self> {
        Vec::deserialize(&service["inputs"]).unwrap_or_default()
    }

    /// Whether it is many files, listed by a manifest.
    pub(super) fn is_bundle(&self) -> bool {
        self.form == "bundle"
    }

    /// The names that must be given.
    pub(super) fn needed(&self) -> impl Iterator<Item = String> {
        (1..=self.min).map(|n| self.name.replace("{n}", &n.to_string()))
    }
}

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Waits {
    pub(super) reason: String,
    until: Option<String>,
    live_attempts: Option<i64>,
    limit: Option<i64>,
    missing: Option<Vec<String>>,
    devices_away: Option<i64>,
}

/// What it costs.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Money {
    #[serde(default)]
    pub(super) held_micros: i64,
    #[serde(default)]
    pub(super) captured_micros: i64,
    #[serde(default)]
    pub(super) released_micros: i64,
}

impl Output {
    /// Number of its bytes.
    pub(super) fn size(&self) -> u64 {
        self.size_bytes.unwrap_or(0)
    }
}

impl Price {
    /// In words.
    pub(super) fn sentence(&self) -> String {
        let (base, minute) = (show(self.base_micros), show(self.per_minute_micros));
        if self.per_minute_micros == 0 {
            return base;
        }
        format!("{base}, and {minute} for each started minute of output")
    }
}

impl Waits {
    /// In words.
    pub(super) fn sentence(&self) -> String {
        let number = |number: Option<i64>| number.unwrap_or(0);
        match self.reason.as_str() {
            "retry_delay" => {
                let until = self.until.as_deref().map_or("?".to_owned(), seconds);
                format!("it is tried again at {until}")
            }
            "org_limit" => format!(
                "{} of your attempts run, of at most {}",
                number(self.live_attempts),
                number(self.limit)
            ),
            "no_capable_device" => match number(self.devices_away) {
                0 => {
                    let missing = self.missing.clone().unwrap_or_default().join(", ");
                    format!("no connected device can run it; the nearest lacks {missing}")
                }
                away => format!("no connected device can run it; {away} that can are away"),
            },
            "paused" => "the devices that can run it get no new work at the moment".to_owned(),
            "no_free_slot" => "the devices that can run it are busy".to_owned(),
            other => other.replace('_', " "),
        }
    }
}

impl Job {
    /// Reads the gateway's answer.
    pub(super) fn read(value: &Value) -> Result<Self, JobError> {
        let job = Self::deserialize(value);
        job.map_err(|error| {
            JobError::Local(format!("the gateway's job is not understood: {error}"))
        })
    }

    /// What it is doing, in a few words.
    pub(super) fn doing(&self) -> String {
        doing(&self.status, self.phase.as_deref(), self.percent)
    }

    /// What it has cost, or holds at the moment; nothing if neither.
    pub(super) fn cost(&self) -> String {
        let money = &self.money;
        let held = money.held_micros - money.captured_micros - money.released_micros;
        match self.status.as_str() {
            "succeeded" => show(money.captured_micros),
            "failed" | "cancelled" => String::new(),
            _ => format!("{} held", show(held)),
        }
    }

    /// In one sentence, how it ended or stands.
    pub(super) fn sentence(&self) -> String {
        let id = &self.id;
        match (&self.output, &self.failure) {
            (Some(output), _) => format!(
                "job {id} succeeded: {} bytes, sha256 {}, charged {}",
                output.size(),
                output.sha256,
                show(self.money.captured_micros)
            ),
            (None, Some(failure)) => format!("job {id} failed: {}", failure.sentence()),
            (None, None) => format!("job {id} is {}", self.doing()),
        }
    }

    /// Nothing, if it succeeded or has not ended; otherwise the error with its exit code.
    pub(super) fn verdict(&self) -> Result<(), JobError> {
        match self.status.as_str() {
            "failed" => Err(JobError::Failed {
                id: self.id.clone(),
                why: self
                    .failure
                    .as_ref()
                    .map_or_else(|| "it is not said why".to_owned(), Failure::sentence),
            }),
            "cancelled" => Err(JobError::Cancelled {
                id: self.id.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl Failure {
    /// The code, and the message if there is one.
    pub(super) fn sentence(&self) -> String {
        match &self.message {
            Some(message) => format!("{}: {message}", self.code),
            None => self.code.clone(),
        }
    }

    /// What to do about it.
    pub(super) fn advice(&self) -> &'static str {
        match self.code.as_str() {
            "input_invalid" => {
                "look at the input and the parameters: again with the same will fail again"
            }
            "runner_failed" | "stalled" => {
                "the program failed on this input: try other parameters, or look at the job's artifacts"
            }
            "runtime_exceeded" => "it takes too long: order a shorter piece, or an easier codec",
            "verification_failed" => {
                "what came out is not what was asked for: order it again; if it is longer than you \
                 said, raise --max-output-seconds"
            }
            "deadline_exceeded" | "undeliverable" => {
                "nobody could run it in time: order it with a later --deadline, or ask for less \
                 (--placement, --label, hardware)"
            }
            "lease_expired" | "download_failed" | "upload_failed" | "provider_offline"
            | "device_fault" | "internal_error" | "no_capacity" => {
                "it was not your file: order it again, perhaps with more --max-attempts"
            }
            _ => "order it again, or ask the operators",
        }
    }
}

/// A time to the second.
pub(super) fn seconds(text: &str) -> String {
    let read = OffsetDateTime::parse(text, &Rfc3339).ok();
    let whole = read.and_then(|at| at.replace_nanosecond(0).ok()?.format(&Rfc3339).ok());
    whole.unwrap_or_else(|| text.to_owned())
}

/// A time to the minute, where there is little room: `2026-11-30T12:00Z`.
pub(super) fn minute(text: &str) -> String {
    let whole = seconds(text);
    match whole.len() {
        20 => format!("{}Z", &whole[..16]),
        _ => whole,
    }
}

/// `running 42 %`, `queued`, …
pub(super) fn doing(status: &str, phase: Option<&str>, percent: Option<f64>) -> String {
    let what = match (status, phase) {
        ("active", Some(phase)) => phase,
        (status, _) => status,
    };
    match percent.filter(|_| status == "active") {
        Some(percent) => format!("{what} {percent:.0} %"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_exact_as_there_is_room() {
        let at = "2026-11-29T12:00:01.512Z";
        assert_eq!(seconds(at), "2026-11-29T12:00:01Z");
        assert_eq!(minute(at), "2026-11-29T12:00Z");
        assert_eq!(minute("yesterday"), "yesterday");
    }

    #[test]
    fn a_running_job_shows_its_phase_and_percent_and_others_their_status() {
        assert_eq!(doing("active", Some("running"), Some(41.7)), "running 42 %");
        assert_eq!(doing("active", None, None), "active");
        assert_eq!(
            doing("verifying", Some("committing"), Some(100.0)),
            "verifying"
        );
        assert_eq!(doing("queued", None, None), "queued");
    }
}
