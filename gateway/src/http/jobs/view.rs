//! How jobs and attempts look from outside.

use fencepost_domain::waiting::Waiting;
use fencepost_store::views::{ArtifactView, AttemptView, EventView, JobView};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A job, and why it waits if that was asked.
pub(super) fn job(job: &JobView, waits: Option<&Waiting>) -> Value {
    let delay = |until| json!({ "reason": "retry_delay", "until": at(until) });
    json!({
        "id": job.id,
        "service": job.service,
        "status": job.status,
        "params": job.params,
        "inputs": inputs(&job.inputs),
        "metadata": job.metadata,
        "phase": job.phase,
        "percent": job.percent,
        "waiting": job.wake_at.map(delay).or_else(|| waits.map(waiting)),
        "attempts": job.attempts,
        "charged_attempts": job.charged_attempts,
        "max_attempts": job.max_attempts,
        "deadline_at": at(job.admission_deadline),
        "money": {
            "held_micros": job.held_micros,
            "captured_micros": job.captured_micros,
            "released_micros": job.released_micros,
        },
        "failure": job.failure_code.as_ref().map(|code| json!({
            "code": code,
            "message": job.failure_message,
        })),
        "output": job.output_sha256.as_ref().map(|sha256| json!({
            "sha256": sha256,
            "size_bytes": job.output_size_bytes,
            "duration_seconds": job.output_seconds,
        })),
        "created_at": at(job.created_at),
        "ended_at": job.ended_at.map(at),
        "links": links(&job.id.to_string()),
    })
}

/// Why a job waits.
pub(super) fn waiting(why: &Waiting) -> Value {
    let reason = why.as_str();
    match why {
        Waiting::OrgLimit { live, limit } => {
            json!({ "reason": reason, "live_attempts": live, "limit": limit })
        }
        Waiting::NoCapableDevice { missing, away } => {
            json!({ "reason": reason, "missing": missing, "devices_away": away })
        }
        Waiting::Paused | Waiting::NoFreeSlot => json!({ "reason": reason }),
    }
}

/// Where to go from a job.
pub(super) fn links(job: &str) -> Value {
    json!({
        "self": format!("/v1/jobs/{job}"),
        "attempts": format!("/v1/jobs/{job}/attempts"),
        "artifacts": format!("/v1/jobs/{job}/artifacts"),
        "output": format!("/v1/jobs/{job}/output"),
        "cancel": format!("/v1/jobs/{job}/cancel"),
    })
}

/// An attempt.
pub(super) fn attempt(attempt: &AttemptView, events: &[EventView]) -> Value {
    let events: Vec<Value> = events.iter().map(event).collect();
    json!({
        "id": attempt.id,
        "attempt_number": attempt.attempt_number,
        "device": { "id": attempt.device_id, "name": attempt.device_name },
        "lease_epoch": attempt.lease_epoch,
        "status": attempt.status,
        "percent": attempt.percent,
        "charged": attempt.charged,
        "failure": attempt.failure_code.as_ref().map(|code| json!({
            "code": code,
            "message": attempt.failure_message,
        })),
        "leased_at": at(attempt.leased_at),
        "ended_at": attempt.ended_at.map(at),
        "events": events,
    })
}

/// An event of an attempt's journal.
fn event(event: &EventView) -> Value {
    json!({
        "seq": event.job_seq,
        "kind": event.kind,
        "payload": event.payload,
        "at": at(event.recorded_at),
    })
}

/// An artifact.
pub(super) fn artifact(artifact: &ArtifactView, url: Option<&str>) -> Value {
    json!({
        "seq": artifact.job_seq,
        "name": artifact.name,
        "attempt_id": artifact.attempt_id,
        "attempt_number": artifact.attempt_number,
        "sha256": artifact.sha256,
        "size_bytes": artifact.size_bytes,
        "at": at(artifact.recorded_at),
        "url": url,
    })
}

/// Inputs by name, without where we keep them.
fn inputs(stored: &Value) -> Value {
    let inputs = stored.as_array().into_iter().flatten().filter_map(|input| {
        let name = input.get("name")?.as_str()?;
        let key = input.get("object_key")?.as_str()?;
        let shown = json!({
            "upload_id": key.strip_prefix("uploads/"),
            "sha256": input.get("sha256"),
            "size_bytes": input.get("size_bytes"),
        });
        Some((name.to_owned(), shown))
    });
    Value::Object(inputs.collect::<Map<_, _>>())
}

fn at(instant: OffsetDateTime) -> Option<String> {
    instant.format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_shown_by_name_and_not_by_place() {
        let id = "019adf00-0000-7000-8000-000000000001";
        let stored = json!([{
            "name": "source", "object_key": format!("uploads/{id}"), "sha256": "ab", "size_bytes": 3,
        }]);
        let expected = json!({ "source": { "upload_id": id, "sha256": "ab", "size_bytes": 3 } });
        assert_eq!(inputs(&stored), expected);
    }
}
