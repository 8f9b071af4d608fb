//! A job as the gateway shows it, as far as the terminal looks at it.

use serde::Deserialize;
use serde_json::Value;

use super::JobError;

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
    pub(super) size_bytes: u64,
    pub(super) filename: Option<String>,
}

/// What it costs.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Money {
    #[serde(default)]
    pub(super) held_micros: i64,
    #[serde(default)]
    pub(super) captured_micros: i64,
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

    /// In one sentence, how it ended or stands.
    pub(super) fn sentence(&self) -> String {
        let id = &self.id;
        match (&self.output, &self.failure) {
            (Some(output), _) => format!(
                "job {id} succeeded: {} bytes, sha256 {}, charged {} micros",
                output.size_bytes, output.sha256, self.money.captured_micros
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
    fn sentence(&self) -> String {
        match &self.message {
            Some(message) => format!("{}: {message}", self.code),
            None => self.code.clone(),
        }
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
