//! What is asked, and what is answered.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{EndpointId, JobId, OrgId, UploadId};
use fencepost_domain::ledger::PriceTerms;
use serde_json::Value;

use crate::vault::Sealed;

/// How urgent a job is: a head start in the queue, so that nothing waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// No head start.
    Low,
    /// Ten minutes.
    #[default]
    Normal,
    /// Thirty minutes.
    High,
}

impl Priority {
    /// Reads `low`, `normal` or `high`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "low" => Some(Self::Low),
            "normal" => Some(Self::Normal),
            "high" => Some(Self::High),
            _ => None,
        }
    }

    pub(super) fn head_start_micros(self) -> i64 {
        let minutes = match self {
            Self::Low => 0,
            Self::Normal => 10,
            Self::High => 30,
        };
        minutes * 60 * 1_000_000
    }
}

/// A checked request for a job.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id, made by the caller, so that a second run is the same job.
    pub id: JobId,
    /// Whose it is.
    pub org: OrgId,
    /// The service.
    pub service: String,
    /// Its parameters, checked.
    pub params: Value,
    /// The service's name of each input, and where it is.
    pub inputs: Vec<(String, NewInput)>,
    /// The buyer's own words.
    pub metadata: Value,
    /// What a device must have (`domain::matcher::lane`).
    pub lane: String,
    /// The budget of charged attempts, 1 to 10.
    pub max_attempts: i32,
    /// From then on it is not started again.
    pub deadline: LeaseDuration,
    /// Head start.
    pub priority: Priority,
    /// The longest output, in seconds.
    pub max_output_seconds: u32,
    /// The longest run of one attempt.
    pub max_run: LeaseDuration,
    /// The price.
    pub terms: PriceTerms,
    /// An endpoint of the org that is told of this job whatever it is subscribed to.
    pub webhook: Option<EndpointId>,
    /// The buyer's word for the request, so that a repeat of it is the same job.
    pub idempotency: Option<IdempotencyKey>,
}

/// Where an input of a new job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewInput {
    /// With us.
    Upload(UploadId),
    /// On a host of the buyer's choice.
    Elsewhere(Elsewhere),
}

/// An input on a host of the buyer's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its address, sealed for this job and input ([`crate::vault::Vault::seal_url`]).
    pub url: Sealed,
    /// The host of it, which is all that is shown.
    pub host: String,
    /// What its bytes must be, if the buyer says it: SHA-256 in lower-case hexadecimal.
    pub sha256: Option<String>,
    /// How many there must be, if the buyer says it.
    pub size_bytes: Option<i64>,
}

/// A buyer's word for a request, with what the request meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// 1 to 255 characters.
    pub key: String,
    /// SHA-256 of the request's meaning.
    pub fingerprint: [u8; 32],
}

/// The answer to a submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The job is queued.
    Queued {
        /// What is held for it.
        held_micros: i64,
    },
    /// The same request made this job before; nothing was changed.
    Replayed {
        /// The job.
        job: JobId,
    },
    /// Another request was made with this key.
    KeyReused,
    /// The account does not cover the hold.
    InsufficientCredit {
        /// What would be held.
        needed_micros: i64,
        /// What there is.
        available_micros: i64,
    },
    /// The org uses as much as it may.
    QuotaReached(QuotaReached),
    /// The webhook endpoint is not there (or not the org's).
    UnknownEndpoint,
    /// An input is not there (or not the org's).
    UnknownUpload {
        /// The input.
        input: String,
    },
    /// An input was not sent completely yet.
    IncompleteUpload {
        /// The input.
        input: String,
    },
}

/// A quota that leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaReached {
    /// `open_jobs` or `stored_bytes`.
    pub quota: &'static str,
    /// How much is used.
    pub used: i64,
    /// The most.
    pub most: i64,
}
