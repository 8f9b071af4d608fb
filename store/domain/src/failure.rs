//! Why an attempt or a job ended badly, and whether it is tried again.
//!
//! The agent reports a code; the control plane decides. Nothing an agent sends can make a job be
//! retried that this table does not retry.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

/// Every failure code there is, with its word on the wire. What is said of it here is also said to
/// buyers, in the description of the API.
macro_rules! failure_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal),+ $(,)?) => {
        /// A machine-readable reason for a failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FailureCode { $($(#[doc = $doc])+ $name),+ }

        impl FailureCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// What it means, in a sentence or two.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii()),+ }
            }
        }
    };
}

failure_codes! {
    /// The device had no room for the work after all. Never charged to the job; tried again.
    NoCapacity = "no_capacity",
    /// The lease ran out: the device stopped reporting. Tried again.
    LeaseExpired = "lease_expired",
    /// An input could not be fetched, for reasons that may pass: its host answered 408, 425, 429 or 5xx, was
    /// not found or did not answer, was too slow, or cut the line, and a few more tries got no further; or
    /// the device had no room for an input without `size_bytes`; or an upload arrived otherwise than its
    /// SHA-256 says. Tried again.
    DownloadFailed = "download_failed",
    /// The output could not be sent, or is not what was declared. Tried again.
    UploadFailed = "upload_failed",
    /// The device went away. Tried again.
    ProviderOffline = "provider_offline",
    /// Trouble that is neither the buyer's nor the device's. Tried again.
    InternalError = "internal_error",
    /// The device is broken: disk full, encoder missing. Counts against the device; tried again.
    DeviceFault = "device_fault",
    /// The service's program failed on this input.
    RunnerFailed = "runner_failed",
    /// The output is not what the service promises.
    VerificationFailed = "verification_failed",
    /// A commit did not match what is stored.
    CommitConflict = "commit_conflict",
    /// The buyer cancelled.
    BuyerCancelled = "buyer_cancelled",
    /// An input is not something the service can work on, or cannot be had from the address in the order:
    /// it has another size or SHA-256 than the order says, or more bytes than the operators allow; its host
    /// answered with a redirect, a `Content-Encoding`, or a status like 401, 403, 404 or 410; its address
    /// does not lead to the public Internet. Not tried again: order anew once that is mended.
    InputInvalid = "input_invalid",
    /// The program ran without getting anywhere.
    Stalled = "stalled",
    /// The program ran longer than the service allows.
    RuntimeExceeded = "runtime_exceeded",
    /// Job only: nobody accepted its offers.
    Undeliverable = "undeliverable",
    /// Job only: not started (again) before its admission deadline, `deadline_seconds` of the order.
    DeadlineExceeded = "deadline_exceeded",
}

impl FailureCode {
    /// Reads a word; an unknown one counts as [`FailureCode::InternalError`].
    pub fn parse_lenient(word: &str) -> Self {
        Self::parse(word).unwrap_or(Self::InternalError)
    }

    /// Reads the word that an agent reports; what only the control plane can know of a job counts as
    /// [`FailureCode::InternalError`] from an agent.
    pub fn reported(word: &str) -> Self {
        let code = Self::parse_lenient(word);
        if code.is_job_only() {
            Self::InternalError
        } else {
            code
        }
    }

    /// Whether it is said of jobs alone, never of an attempt.
    pub fn is_job_only(self) -> bool {
        matches!(self, Self::Undeliverable | Self::DeadlineExceeded)
    }

    /// Reads a word that this build knows.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == word)
    }

    /// Whether another attempt may follow, budget and deadline permitting.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::NoCapacity
            | Self::LeaseExpired
            | Self::DownloadFailed
            | Self::UploadFailed
            | Self::ProviderOffline
            | Self::InternalError
            | Self::DeviceFault => true,
            Self::RunnerFailed
            | Self::VerificationFailed
            | Self::CommitConflict
            | Self::BuyerCancelled
            | Self::InputInvalid
            | Self::Stalled
            | Self::RuntimeExceeded
            | Self::Undeliverable
            | Self::DeadlineExceeded => false,
        }
    }
}

impl JsonSchema for FailureCode {
    fn schema_name() -> Cow<'static, str> {
        "FailureCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codes = Self::ALL.iter().map(|code| {
            json!({ "const": code.as_str(), "description": code.meaning(), "type": "string" })
        });
        json_schema!({
            "description": "Why an attempt or a job did not succeed. After those that are tried again the \
                next attempt begins, as long as `max_attempts` and `deadline_seconds` allow; the others \
                end the job.",
            "oneOf": codes.collect::<Vec<_>>(),
        })
    }
}

impl Serialize for FailureCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FailureCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Self::parse_lenient(&word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_code_counts_as_internal_error() {
        assert_eq!(
            FailureCode::parse_lenient("please_retry_me"),
            FailureCode::InternalError
        );
    }

    #[test]
    fn an_agent_cannot_report_what_is_said_of_jobs_alone() {
        for job_only in [FailureCode::Undeliverable, FailureCode::DeadlineExceeded] {
            let reported = FailureCode::reported(job_only.as_str());
            assert_eq!(reported, FailureCode::InternalError);
        }
        for code in FailureCode::ALL.iter().filter(|code| !code.is_job_only()) {
            assert_eq!(FailureCode::reported(code.as_str()), *code);
        }
        let of_jobs_alone = FailureCode::ALL.iter().filter(|code| code.is_job_only());
        assert_eq!(of_jobs_alone.count(), 2);
    }

    #[test]
    fn exactly_the_seven_passing_troubles_are_retryable() {
        let retryable: Vec<_> = FailureCode::ALL
            .iter()
            .filter(|code| code.is_retryable())
            .map(|c| c.as_str())
            .collect();
        assert_eq!(
            retryable,
            [
                "no_capacity",
                "lease_expired",
                "download_failed",
                "upload_failed",
                "provider_offline",
                "internal_error",
                "device_fault",
            ]
        );
    }
    #[test]
    fn every_code_is_described_and_says_whether_it_is_tried_again() {
        for code in FailureCode::ALL {
            let meaning = code.meaning();
            assert!(
                meaning.ends_with('.') && !meaning.contains("  "),
                "{meaning}"
            );
            let says =
                meaning.to_lowercase().contains("tried again.") && !meaning.contains("Not tried");
            assert_eq!(says, code.is_retryable(), "{meaning}");
        }
        let schema = FailureCode::json_schema(&mut SchemaGenerator::default());
        let codes = schema
            .get("oneOf")
            .and_then(|codes| codes.as_array())
            .unwrap();
        assert_eq!(codes.len(), FailureCode::ALL.len());
        assert_eq!(codes[0]["const"], "no_capacity");
    }
}
