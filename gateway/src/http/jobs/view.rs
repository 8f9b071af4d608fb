//! How jobs look from outside.

use std::collections::BTreeMap;

use fencepost_domain::artifact_key;
use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::JobId;
use fencepost_domain::job::JobStatus;
use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_domain::waiting::Waiting;
use fencepost_store::views::JobView;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::http::openapi::Time;

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Job {
    /// Its id.
    id: Uuid,
    /// The service that it asks for.
    service: String,
    /// Where it stands.
    #[schemars(with = "JobStatus")]
    status: String,
    /// The parameters of the service, as they were sent.
    #[schemars(with = "Map<String, Value>")]
    params: Value,
    /// Its inputs by name.
    inputs: BTreeMap<String, Input>,
    /// Your own words, as they were sent.
    #[schemars(with = "Map<String, Value>")]
    metadata: Value,
    /// The webhook endpoint that it names.
    webhook: Option<Webhook>,
    /// What its live attempt is doing.
    #[schemars(with = "Option<AttemptStatus>")]
    phase: Option<String>,
    /// How much of the phase is done, 0 to 100, if its Mac can tell.
    percent: Option<f32>,
    /// Why it waits, if it does. A create does not look, and a list says only `retry_delay`: ask for the
    /// job, or watch it.
    waiting: Option<Waits>,
    /// How many attempts it has had.
    attempts: i32,
    /// How many of them count against `max_attempts`.
    charged_attempts: i32,
    /// How many may.
    max_attempts: i32,
    /// From then on it is not started again.
    deadline_at: Time,
    /// What it holds, and what became of that.
    money: Money,
    /// Why it failed.
    failure: Option<Failure>,
    /// What it made; at `links.output`.
    output: Option<Output>,
    /// When it was posted.
    created_at: Time,
    /// When it ended.
    ended_at: Option<Time>,
    /// Until when its inputs, output and artifacts are kept; null while it has not ended.
    expires_at: Option<Time>,
    /// Where to go from here.
    links: Links,
}

/// A file that a job works on.
#[derive(Debug, Serialize, JsonSchema)]
struct Input {
    /// The upload, if it is one.
    #[schemars(with = "Option<Uuid>")]
    upload_id: Option<String>,
    /// The host of its address, if that was given instead; the rest of it may be secret and is not shown.
    host: Option<String>,
    /// SHA-256 of its bytes, in hexadecimal; of an address only if it was said.
    sha256: Option<String>,
    /// Number of its bytes; of an address only if it was said.
    size_bytes: Option<u64>,
}

/// Who is told of a job, besides those who are told of all.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobWebhook")]
struct Webhook {
    /// The webhook endpoint.
    endpoint_id: Uuid,
}

/// Why a queued job does not run, as far as that can be said.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Waits {
    /// `retry_delay`: it is tried again after a delay. `org_limit`: its org has as many attempts as it
    /// may have. `no_capable_device`: no connected device can run it. `paused`: those that can get no
    /// new work. `no_free_slot`: those that can are busy.
    #[schemars(extend("enum" = [
        "retry_delay", "org_limit", "no_capable_device", "paused", "no_free_slot",
    ]))]
    reason: &'static str,
    /// Until when, if it is a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    /// The org's live attempts, if they are the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_attempts: Option<i64>,
    /// The most that the org may have, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<i64>,
    /// What the device that comes nearest lacks, if none can run it; empty if there are some, away.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Vec<String>>,
    /// Devices that could run it and are away, if no other can.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices_away: Option<i64>,
}

/// A job's money; what is held is captured or released, once.
#[derive(Debug, Serialize, JsonSchema)]
struct Money {
    /// What was held when it was posted.
    held_micros: i64,
    /// What it cost.
    captured_micros: i64,
    /// What was given back.
    released_micros: i64,
}

/// Why something did not succeed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Failure {
    /// For programs.
    #[schemars(with = "FailureCode")]
    code: String,
    /// For a person.
    message: Option<String>,
}

/// A verified output.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// SHA-256 of its bytes, in hexadecimal.
    sha256: String,
    /// Number of its bytes.
    size_bytes: Option<i64>,
    /// How long it is, which decided the price.
    duration_seconds: Option<f64>,
    /// A name for it, that tells what is in it.
    filename: String,
    /// When it was deleted; it is served no more.
    deleted_at: Option<Time>,
}

/// Where to go from a job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobLinks")]
pub(super) struct Links {
    #[serde(rename = "self")]
    /// The job.
    itself: String,
    /// What becomes of it, as it happens.
    events: String,
    /// Its attempts.
    attempts: String,
    /// Its artifacts.
    artifacts: String,
    /// Its output.
    output: String,
    /// Where to cancel it.
    cancel: String,
}

impl Job {
    /// A job, and why it waits if that was asked.
    pub(super) fn of(job: &JobView, waits: Option<&Waiting>) -> Self {
        Self {
            id: job.id,
            service: job.service.clone(),
            status: job.status.clone(),
            params: job.params.clone(),
            webhook: job
                .webhook_endpoint_id
                .map(|endpoint_id| Webhook { endpoint_id }),
            inputs: inputs(&job.inputs),
            metadata: job.metadata.clone(),
            phase: job.phase.clone(),
            percent: job.percent,
            waiting: Waits::why(job.wake_at, waits),
            attempts: job.attempts,
            charged_attempts: job.charged_attempts,
            max_attempts: job.max_attempts,
            deadline_at: Time(job.admission_deadline),
            money: Money {
                held_micros: job.held_micros,
                captured_micros: job.captured_micros,
                released_micros: job.released_micros,
            },
            failure: Failure::of(job.failure_code.as_ref(), job.failure_message.as_ref()),
            output: job.output_sha256.clone().map(|sha256| Output {
                sha256,
                size_bytes: job.output_size_bytes,
                duration_seconds: job.output_seconds,
                filename: output_name(JobId(job.id), &job.service, &job.params),
                deleted_at: job.files_deleted_at.map(Time),
            }),
            created_at: Time(job.created_at),
            ended_at: job.ended_at.map(Time),
            expires_at: job.files_expire_at.map(Time),
            links: Links::of(&job.id.to_string()),
        }
    }
}

impl Waits {
    /// Why a job waits: for the end of its delay, or for something else that may be known.
    pub(super) fn why(until: Option<OffsetDateTime>, waits: Option<&Waiting>) -> Option<Self> {
        let delay = |until| Self {
            until: Some(Time(until)),
            ..Self::because("retry_delay")
        };
        until.map(delay).or_else(|| waits.map(Self::of))
    }

    /// What is known of a reason.
    pub(super) fn of(why: &Waiting) -> Self {
        let known = Self::because(why.as_str());
        match why {
            Waiting::OrgLimit { live, limit } => Self {
                live_attempts: Some(*live),
                limit: Some(*limit),
                ..known
            },
            Waiting::NoCapableDevice { missing, away } => Self {
                missing: Some(missing.clone()),
                devices_away: Some(*away),
                ..known
            },
            Waiting::Paused | Waiting::NoFreeSlot => known,
        }
    }

    fn because(reason: &'static str) -> Self {
        Self {
            reason,
            until: None,
            live_attempts: None,
            limit: None,
            missing: None,
            devices_away: None,
        }
    }
}

impl Failure {
    /// A failure that is stored.
    pub(super) fn of(code: Option<&String>, message: Option<&String>) -> Option<Self> {
        let code = code?.clone();
        let message = message.cloned();
        Some(Self { code, message })
    }
}

impl Links {
    /// The links of a job.
    pub(super) fn of(job: &str) -> Self {
        let of_job = |rest: &str| format!("/v1/jobs/{job}{rest}");
        Self {
            itself: of_job(""),
            events: of_job("/events"),
            attempts: of_job("/attempts"),
            artifacts: of_job("/artifacts"),
            output: of_job("/output"),
            cancel: of_job("/cancel"),
        }
    }
}

/// A name for the output, that tells what is in it.
pub(super) fn output_name(job: JobId, service: &str, params: &Value) -> String {
    let service = ServiceName::parse(service);
    let params = service.and_then(|service| ServiceParams::parse(service, params).ok());
    let extension = params.map_or("bin", |params| params.output_extension());
    format!("{job}.{extension}")
}

/// Inputs by name, without where we keep them.
fn inputs(stored: &Value) -> BTreeMap<String, Input> {
    let inputs = stored.as_array().into_iter().flatten().filter_map(|input| {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        let shown = Input {
            upload_id: text("object_key")
                .and_then(artifact_key::upload_of)
                .map(str::to_owned),
            host: text("host").map(str::to_owned),
            sha256: text("sha256").map(str::to_owned),
            size_bytes: input.get("size_bytes").and_then(Value::as_u64),
        };
        Some((text("name")?.to_owned(), shown))
    });
    inputs.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_are_shown_by_name_and_not_by_place() {
        let id = "019adf00-0000-7000-8000-000000000001";
        let stored = json!([
            {
                "name": "source",
                "object_key": format!("uploads/{id}"),
                "sha256": "ab",
                "size_bytes": 3,
            },
            {
                "name": "audio",
                "host": "files.example",
                "sealed_url": "00",
                "sha256": null,
                "size_bytes": 4,
            },
        ]);
        let expected = json!({
            "source": { "upload_id": id, "host": null, "sha256": "ab", "size_bytes": 3 },
            "audio": {
                "upload_id": null, "host": "files.example", "sha256": null, "size_bytes": 4,
            },
        });
        assert_eq!(json!(inputs(&stored)), expected);
    }
}
