//! One end as the statement reads it: what becomes of the attempt, of its job and of the money.

use fencepost_domain::ending::{Back, Ending, JobNext};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ledger::Settlement;
use fencepost_domain::text::{clean, without_addresses};
use serde::Serialize;
use uuid::Uuid;

use crate::fence::{WhereFacts, hex_digest};
use crate::finalized::Ended;
use crate::rows::{FinalAnswer, JobRow, Pair};

const MAX_MESSAGE_BYTES: usize = 2_000;

/// One end to write.
#[derive(Debug, Serialize)]
pub(in crate::tx) struct Finish {
    pub(super) attempt: Option<AttemptEnd>,
    pub(super) job: JobEnd,
    #[serde(skip)]
    pub(super) ended: Option<Ended>,
}

#[derive(Debug, Serialize)]
pub(super) struct AttemptEnd {
    #[serde(flatten)]
    facts: WhereFacts,
    verification_epoch: Option<i64>,
    status: &'static str,
    /// Set when the control plane acts over the agent's head.
    new_epoch: Option<i64>,
    charged: bool,
    returned: bool,
    failure_code: Option<&'static str>,
    failure_message: Option<String>,
    final_operation: Option<String>,
    final_epoch: Option<i64>,
    final_digest: Option<String>,
    final_content: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct JobEnd {
    pub(super) id: Uuid,
    from: &'static str,
    status: &'static str,
    pub(super) terminal: bool,
    delay_micros: i64,
    charged: i32,
    returned: i32,
    bumped: i32,
    failure_code: Option<&'static str>,
    failure_message: Option<String>,
    /// What becomes of the hold, all zero unless the job ends.
    provider_id: Option<Uuid>,
    provider_micros: i64,
    platform_micros: i64,
    released_micros: i64,
    settled_micros: i64,
    event_id: Uuid,
    output: Option<Published>,
}

/// The output of a job that succeeded.
#[derive(Debug, Clone, Serialize)]
pub(in crate::tx) struct Published {
    pub(in crate::tx) attempt_id: Uuid,
    pub(in crate::tx) object_key: String,
    pub(in crate::tx) sha256: String,
    pub(in crate::tx) size_bytes: i64,
    pub(in crate::tx) seconds: f64,
}

impl Finish {
    /// The end of an attempt, and what follows for its job.
    pub(in crate::tx) fn attempt(pair: &Pair, facts: WhereFacts, ending: &Ending) -> Self {
        let fence = &pair.attempt.fence;
        let attempt = AttemptEnd {
            facts,
            verification_epoch: None,
            status: ending.attempt.as_str(),
            new_epoch: ending.forced.then_some(pair.job.epoch_counter + 1),
            charged: ending.charged,
            returned: ending.back == Some(Back::Offer),
            failure_code: ending.code.map(FailureCode::as_str),
            failure_message: None,
            final_operation: None,
            final_epoch: None,
            final_digest: None,
            final_content: None,
        };
        let ended = Ended {
            attempt: fence.attempt,
            job: fence.job,
            device: fence.device,
            status: ending.attempt,
            code: ending.code,
            message: None,
            job_status: ending.job.status(),
        };
        let mut job = JobEnd::new(&pair.job, ending.job);
        job.charged = i32::from(ending.charged);
        job.returned = i32::from(ending.back.is_some());
        job.bumped = i32::from(ending.forced);
        Self {
            attempt: Some(attempt),
            job,
            ended: Some(ended),
        }
    }

    /// The end of a job that has no live attempt.
    pub(in crate::tx) fn job_alone(job: &JobRow, next: JobNext) -> Self {
        Self {
            attempt: None,
            job: JobEnd::new(job, next),
            ended: None,
        }
    }

    /// Why it ended, for people; cleaned and bounded. A worker knows the addresses of the inputs.
    pub(in crate::tx) fn message(mut self, message: &str) -> Self {
        let message = clean(&without_addresses(message), MAX_MESSAGE_BYTES);
        if self.job.failure_code.is_some() {
            self.job.failure_message = Some(message.clone());
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.failure_message = Some(message.clone());
        }
        if let Some(ended) = &mut self.ended {
            ended.message = Some(message);
        }
        self
    }

    /// Remembers who ended it and with what, so that the same writer's repeat is recognised.
    pub(in crate::tx) fn written_by(mut self, answer: &FinalAnswer) -> Self {
        if let Some(attempt) = &mut self.attempt {
            attempt.final_operation = Some(answer.operation.clone());
            attempt.final_epoch = Some(answer.epoch);
            attempt.final_digest = Some(hex_digest(&answer.digest));
            attempt.final_content = Some(hex::encode(&answer.content));
        }
        self
    }

    /// Only if this pick-up of the verification is still the current one.
    pub(in crate::tx) fn in_verification(mut self, epoch: i64) -> Self {
        if let Some(attempt) = &mut self.attempt {
            attempt.verification_epoch = Some(epoch);
        }
        self
    }

    /// The output to publish, which decides how much of the hold is captured.
    pub(in crate::tx) fn publish(mut self, pair: &Pair, output: Published) -> Self {
        let parts = pair.job.terms.settle(pair.job.held_micros, output.seconds);
        self.job.provider_id = Some(pair.attempt.provider.0);
        self.job.set_settlement(&parts);
        self.job.output = Some(output);
        self
    }
}

impl JobEnd {
    fn new(job: &JobRow, next: JobNext) -> Self {
        let (delay_micros, failure_code) = match next {
            JobNext::Queued { delay } => (i64::try_from(delay.as_micros()).unwrap_or(0), None),
            JobNext::Failed(code) => (0, Some(code.as_str())),
            JobNext::Succeeded | JobNext::Cancelled => (0, None),
        };
        let terminal = next.status().is_terminal();
        let mut end = Self {
            id: job.id.0,
            from: job.facts.status.as_str(),
            status: next.status().as_str(),
            terminal,
            delay_micros,
            charged: 0,
            returned: 0,
            bumped: 0,
            failure_code,
            failure_message: None,
            provider_id: None,
            provider_micros: 0,
            platform_micros: 0,
            released_micros: 0,
            settled_micros: 0,
            event_id: Uuid::now_v7(),
            output: None,
        };
        if terminal {
            end.set_settlement(&Settlement::release(job.held_micros));
        }
        end
    }

    fn set_settlement(&mut self, parts: &Settlement) {
        self.provider_micros = parts.provider_micros;
        self.platform_micros = parts.platform_micros;
        self.released_micros = parts.released_micros;
        self.settled_micros = parts.captured_micros() + parts.released_micros;
    }

    /// How many movements of money it makes.
    pub(super) fn postings(&self) -> usize {
        [
            self.provider_micros,
            self.platform_micros,
            self.released_micros,
        ]
        .iter()
        .filter(|micros| **micros > 0)
        .count()
    }
}
