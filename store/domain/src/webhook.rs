//! Webhooks: which events there are, when a delivery is tried again, and when an endpoint is given up.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

/// What buyers can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[schemars(rename = "WebhookEventType")]
pub enum EventType {
    /// A job has its verified output.
    #[serde(rename = "job.succeeded")]
    JobSucceeded,
    /// A job ended without one.
    #[serde(rename = "job.failed")]
    JobFailed,
    /// A job ended because its buyer wanted that.
    #[serde(rename = "job.cancelled")]
    JobCancelled,
    /// An endpoint of the org was switched off because it answers nothing but failures.
    #[serde(rename = "webhook_endpoint.disabled")]
    EndpointDisabled,
}

impl EventType {
    /// Every type.
    pub const ALL: [Self; 4] = [
        Self::JobSucceeded,
        Self::JobFailed,
        Self::JobCancelled,
        Self::EndpointDisabled,
    ];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JobSucceeded => "job.succeeded",
            Self::JobFailed => "job.failed",
            Self::JobCancelled => "job.cancelled",
            Self::EndpointDisabled => "webhook_endpoint.disabled",
        }
    }

    /// The type of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// How long after the first try, the second, and so on, the next one comes: eight tries in 28 hours.
pub const RETRIES: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(30 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(5 * HOUR),
    Duration::from_secs(10 * HOUR),
    Duration::from_secs(10 * HOUR),
];
/// The most that chance adds to a wait, in thousandths of it, so that what failed together does not
/// come back together.
pub const MAX_JITTER: u32 = 100;
/// The longest wait that an endpoint may ask for.
pub const LONGEST_WAIT: Duration = Duration::from_secs(24 * HOUR);
/// How long an endpoint is left alone that says 429 and not for how long.
pub const REST: Duration = Duration::from_secs(30);
/// The longest that an endpoint is left alone altogether.
pub const LONGEST_REST: Duration = Duration::from_secs(HOUR);
/// An endpoint that has answered nothing but failures for so long is switched off.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(5 * 24 * HOUR);
/// After so long without any try, a failure begins a new count: nobody knows what was in between.
pub const SILENCE: Duration = Duration::from_secs(24 * HOUR);
/// An endpoint that works is sent so many deliveries at once.
pub const AT_ONCE: i32 = 8;
/// One that does not, so many.
pub const AT_ONCE_WHILE_FAILING: i32 = 1;

/// When a delivery is tried again that has failed `round_tries` times since it was queued; `None` if
/// that is enough. `chance` is any number.
pub fn retry_after(round_tries: u32, chance: u64) -> Option<Duration> {
    let position = usize::try_from(round_tries.checked_sub(1)?).ok()?;
    let wait = *RETRIES.get(position)?;
    // Within u32 by the remainder.
    let thousandths = u32::try_from(chance % u64::from(MAX_JITTER + 1)).unwrap_or(MAX_JITTER);
    Some(wait + wait * thousandths / 1_000)
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered.
    Accepted,
    /// Not delivered.
    Failed {
        /// The endpoint asks to come back after this.
        wait: Option<Duration>,
        /// It asks to be left alone with all deliveries for so long.
        rest: Option<Duration>,
    },
    /// There is nobody there any more: the endpoint is switched off.
    Gone,
}

/// Judges an answer by its status (none if there was no answer) and its `Retry-After`.
pub fn judge(status: Option<u16>, retry_after: Option<Duration>) -> Verdict {
    let rest = |wait: Duration| wait.min(LONGEST_REST);
    match status {
        Some(200..=299) => Verdict::Accepted,
        Some(410) => Verdict::Gone,
        Some(429) => Verdict::Failed {
            wait: retry_after.map(|wait| wait.min(LONGEST_WAIT)),
            rest: Some(rest(retry_after.unwrap_or(REST))),
        },
        Some(503) => Verdict::Failed {
            wait: retry_after.map(|wait| wait.min(LONGEST_WAIT)),
            rest: retry_after.map(rest),
        },
        Some(_) | None => Verdict::Failed {
            wait: retry_after.map(|wait| wait.min(LONGEST_WAIT)),
            rest: None,
        },
    }
}

/// How long an endpoint has been failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing {
    /// Since when.
    pub since: OffsetDateTime,
    /// The latest failure.
    pub last: OffsetDateTime,
}

impl Failing {
    /// What one more failure makes of it.
    pub fn again(before: Option<Self>, now: OffsetDateTime) -> Self {
        let since = match before {
            Some(before) if now - before.last <= SILENCE => before.since,
            Some(_) | None => now,
        };
        Self { since, last: now }
    }

    /// Whether that is enough: failures all the while, and no success among them.
    pub fn is_hopeless(self) -> bool {
        self.last - self.since >= GIVE_UP_AFTER
    }
}

#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
