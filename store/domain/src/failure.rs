//! Why an attempt or a job ended badly, and whether it is tried again.
//!
//! The agent reports a code; the control plane decides. Nothing an agent sends can make a job be
//! retried that this table does not retry.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Every failure code there is, with its word on the wire.
macro_rules! failure_codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// A machine-readable reason for a failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FailureCode { $($(#[$doc])* $name),+ }

        impl FailureCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }
        }
    };
}

failure_codes! {
    /// The device had no room after all. Never charged to the job.
    NoCapacity = "no_capacity",
    /// The lease ran out.
    LeaseExpired = "lease_expired",
    /// An input could not be fetched, or was not what its digest says.
    DownloadFailed = "download_failed",
    /// The output could not be sent, or is not what was declared.
    UploadFailed = "upload_failed",
    /// The device went away.
    ProviderOffline = "provider_offline",
    /// Trouble that is neither the buyer's nor the device's.
    InternalError = "internal_error",
    /// The device is broken: disk full, encoder missing. Counts against the device.
    DeviceFault = "device_fault",
    /// The service's program failed on this input.
    RunnerFailed = "runner_failed",
    /// The output is not what the service promises.
    VerificationFailed = "verification_failed",
    /// A commit did not match what is stored.
    CommitConflict = "commit_conflict",
    /// The buyer cancelled.
    BuyerCancelled = "buyer_cancelled",
    /// The input is not something the service can work on.
    InputInvalid = "input_invalid",
    /// The program ran without getting anywhere.
    Stalled = "stalled",
    /// The program ran longer than the service allows.
    RuntimeExceeded = "runtime_exceeded",
    /// Job only: nobody accepted its offers.
    Undeliverable = "undeliverable",
    /// Job only: not started (again) before its admission deadline.
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
        let words: Vec<_> = Self::ALL.iter().map(|code| code.as_str()).collect();
        json_schema!({ "type": "string", "enum": words })
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
}
