//! What receivers of webhooks are sent: one shape for who writes it and for who describes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::failure::FailureCode;
use crate::job::JobStatus;
use crate::webhook::EventType;

/// The body of a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "{D}Message")]
pub struct WebhookMessage<D> {
    /// What happened.
    pub r#type: EventType,
    /// When it happened.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub timestamp: OffsetDateTime,
    /// What there is to say about it, as of then.
    pub data: D,
}

/// A job has ended; the data of `job.succeeded`, `job.failed` and `job.cancelled`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WebhookJobEnded")]
pub struct JobEnded {
    /// The job.
    pub job_id: Uuid,
    /// Its place among all that happened to the job.
    pub seq: i64,
    /// How it ended.
    #[schemars(with = "JobStatus")]
    pub status: String,
    /// What was asked for.
    pub service: String,
    /// Why it failed, if it did.
    #[schemars(with = "Option<FailureCode>")]
    pub failure_code: Option<String>,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
}

/// An endpoint was switched off; the data of `webhook_endpoint.disabled`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WebhookEndpointDisabled")]
pub struct EndpointDisabled {
    /// The webhook endpoint.
    pub endpoint_id: Uuid,
    /// `operator` did it; it is `gone` (it said 410); or it is `failing`: failures and nothing else for
    /// too long.
    #[schemars(extend("enum" = ["operator", "gone", "failing"]))]
    pub reason: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
}

/// The data of any event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EventData {
    /// Of a job.
    JobEnded(JobEnded),
    /// Of an endpoint.
    EndpointDisabled(EndpointDisabled),
}

impl EventData {
    /// What is stored of an event of this type.
    ///
    /// # Errors
    /// If it was written by a mistake.
    pub fn read(kind: EventType, stored: &Value) -> Result<Self, serde_json::Error> {
        match kind {
            EventType::JobSucceeded | EventType::JobFailed | EventType::JobCancelled => {
                JobEnded::deserialize(stored).map(Self::JobEnded)
            }
            EventType::EndpointDisabled => {
                EndpointDisabled::deserialize(stored).map(Self::EndpointDisabled)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_stored_is_sent_with_times_of_one_form() {
        let job = "019adf00-0000-7000-8000-000000000001";
        let stored = json!({
            "job_id": job, "seq": 3, "status": "failed", "service": "noop.v1",
            "failure_code": "stalled", "at": "2026-11-30T00:00:00.5+00:00",
        });
        let data = EventData::read(EventType::JobFailed, &stored).unwrap();
        let mut sent = stored.clone();
        sent["at"] = "2026-11-30T00:00:00.5Z".into();
        assert_eq!(json!(data), sent);
        let stored = json!({
            "endpoint_id": job, "reason": "gone", "at": "2026-11-30T00:00:00+00:00",
        });
        let data = EventData::read(EventType::EndpointDisabled, &stored).unwrap();
        assert_eq!(json!(data)["at"], "2026-11-30T00:00:00Z");
        assert!(EventData::read(EventType::JobFailed, &stored).is_err());
    }
}
