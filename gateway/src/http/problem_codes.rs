//! The kinds of refusals: one table, of which the answers, their pages and the description of the API
//! are made.

use std::borrow::Cow;

use actix_web::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// Every kind of refusal: its word, status, whether the same request may succeed later, its title, and
/// what it means and what to do about it.
macro_rules! problem_codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $status:ident, $retry:literal, $title:literal, $help:literal;)+) => {
        /// A machine-readable reason for a refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemCode { $($(#[$doc])* $name),+ }

        impl ProblemCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word in the answer.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// The HTTP status; a lease's refusals have their own.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),+ }
            }

            /// Whether the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$name => $retry),+ }
            }

            /// What it means in general, for a person.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),+ }
            }

            /// What it means, and what to do about it.
            pub fn help(self) -> &'static str {
                match self { $(Self::$name => $help),+ }
            }
        }
    };
}

problem_codes! {
    /// A value breaks a rule, or the body is not JSON.
    InvalidRequest = "invalid_request", BAD_REQUEST, false, "The request is not valid",
        "A value breaks a rule, or the body is not JSON. `field` names the value and `detail` the rule: change it, then send the request again.";
    /// No credential, or one that opens nothing here.
    Unauthorized = "unauthorized", UNAUTHORIZED, false, "The credential is not valid",
        "There was no credential, it is unknown or revoked, or it is one for other addresses: buyers send an API key of their org, devices the token that they got when they were paired.";
    /// The balance does not cover the hold.
    InsufficientFunds = "insufficient_funds", PAYMENT_REQUIRED, false, "The balance is too low",
        "A job holds the highest price that it can cost, and less than that is available. Add credit, lower `limits.max_output_seconds`, or wait until other jobs have ended.";
    /// The device is disabled.
    Disabled = "disabled", FORBIDDEN, false, "The device is disabled",
        "An operator has disabled the device. Talk to the operators.";
    /// The link is not one of ours.
    LinkInvalid = "link_invalid", FORBIDDEN, false, "The link is not valid",
        "The link was changed on its way, or is for the other direction (a link to PUT cannot be used to GET). Take it exactly as it came, or ask for a new one.";
    /// The link's time is over.
    LinkExpired = "link_expired", FORBIDDEN, false, "The link has expired",
        "A transfer must begin before its link expires. Ask for a new link: make a new upload, or fetch the output's address again.";
    /// No such thing, or not yours.
    NotFound = "not_found", NOT_FOUND, false, "There is no such thing",
        "There is nothing of that name, or it belongs to somebody else: the two are not told apart. Look at the address and at the key that you use.";
    /// The address exists, the method does not.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, false, "The method is not allowed here",
        "The address is used with another method; the header `Allow` names it.";
    /// The job has no output yet.
    NotReady = "not_ready", CONFLICT, true, "There is no output yet",
        "The job has not succeeded yet. Ask again later; `GET /v1/jobs/{job}` says how far it is.";
    /// The job ended without an output.
    NoOutput = "no_output", CONFLICT, false, "There is no output",
        "The job failed or was cancelled, so there will never be an output. Its `failure` says why.";
    /// The upload is stored already; it can be written once.
    AlreadyStored = "already_stored", CONFLICT, false, "The file is stored already",
        "An upload is written once. Use it, or make a new upload for other bytes.";
    /// The upload has not arrived, so it cannot be an input.
    UploadIncomplete = "upload_incomplete", CONFLICT, false, "The file has not been sent",
        "The upload exists, but its bytes have not arrived. PUT the file to the upload's `url` and complete the upload first.";
    /// The file is not the one that was declared.
    UploadMismatch = "upload_mismatch", UNPROCESSABLE_ENTITY, false, "The file is not the declared one",
        "Other bytes came than those whose `sha256` the upload was made for, or under which an artifact was recorded. Send the right ones, or make a new upload.";
    /// The attempt's grant is closed.
    GrantClosed = "grant_closed", CONFLICT, false, "The attempt can no longer write this",
        "The attempt has committed or ended, so nothing more is taken from it. Drop the work.";
    /// The idempotency key names another request.
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, false, "The idempotency key was used for another request",
        "The same key came before with another body. To repeat that request, send its body unchanged; for a new request take a new key.";
    /// The org uses as much as it may.
    QuotaExceeded = "quota_exceeded", CONFLICT, true, "A quota leaves no room",
        "Your org uses as much as it may of something; `detail` begins with what. Make room, by waiting for jobs or cancelling them or by deleting files, or ask the operators for more.";
    /// The job has not ended, so its files cannot be deleted.
    JobIsLive = "job_is_live", CONFLICT, true, "The job has not ended",
        "What a job makes can be deleted when it has ended. Cancel it first, or wait.";
    /// A job that has not ended reads the upload.
    UploadInUse = "upload_in_use", CONFLICT, true, "The file is in use",
        "A job that has not ended reads the file; `detail` says which. Cancel it first, or wait.";
    /// It was deleted, by its buyer or because its time was over.
    Gone = "gone", GONE, false, "It was deleted",
        "It was there, and was deleted: by you, or because the time was over for which it is kept.";
    /// The webhook endpoint is switched off.
    EndpointDisabled = "endpoint_disabled", CONFLICT, false, "The webhook endpoint is switched off",
        "Nothing is sent to an endpoint that is switched off. `disabled.reason` says why it is: put that right, switch it on with PATCH `{\"enabled\": true}`, then ask again.";
    /// The org has as many webhook endpoints as it may have.
    TooManyEndpoints = "too_many_endpoints", CONFLICT, false, "There are too many webhook endpoints",
        "An org may have 50 webhook endpoints. Delete one that is not needed any more.";
    /// Bytes other than announced came.
    LengthMismatch = "length_mismatch", BAD_REQUEST, true, "The length is not as announced",
        "More or fewer bytes came than were announced. Nothing was stored: send them again.";
    /// The sender broke off.
    BrokenOff = "broken_off", BAD_REQUEST, true, "The body ended early",
        "The connection broke, or nothing came for a minute. Nothing was stored: send the request again.";
    /// More than is taken.
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, false, "The body is too large",
        "More bytes than are taken here; `detail` says how many may come.";
    /// The body is not JSON.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, false, "The body must be JSON",
        "Send JSON, and the header `Content-Type: application/json`.";
    /// The range lies outside of the object.
    RangeNotSatisfiable = "range_not_satisfiable", RANGE_NOT_SATISFIABLE, false, "The range is outside of the object",
        "The header `Range` asks for bytes behind the end; `Content-Range` says how many there are.";
    /// The agent is too old, or this is no WebSocket.
    UpgradeRequired = "upgrade_required", UPGRADE_REQUIRED, false, "A WebSocket is needed",
        "Agents connect to this address with a WebSocket. Run `fencepost-agent`, of a version that is new enough.";
    /// Too many requests lately.
    TooManyRequests = "too_many_requests", TOO_MANY_REQUESTS, true, "Too many requests",
        "Wait for as many seconds as `Retry-After` says, then go on more slowly.";
    /// Somebody else holds the lease, or nobody.
    LeaseConflict = "lease_conflict", CONFLICT, false, "The lease is not yours",
        "The lease has ended, was given to somebody else, or has a newer epoch. Stop the work and drop it.";
    /// Somebody else holds the lease, or other content is stored.
    CommitConflict = "commit_conflict", CONFLICT, false, "The lease is not yours, or its end is another",
        "The lease has ended or was given to somebody else, or something else was stored as its end. The result cannot be published any more: drop it.";
    /// An event or an artifact by somebody who does not hold the lease.
    RunLeaseConflict = "run_lease_conflict", CONFLICT, false, "The lease is not yours",
        "Events and artifacts are taken from the holder of the lease alone. Say it once more under your current epoch and secret if you have newer ones; else drop it.";
    /// Another event is stored under this id or number.
    RunEventConflict = "run_event_conflict", CONFLICT, false, "Another event is stored under this id or number",
        "Ids and numbers name one event each. Give a new event new ones.";
    /// Another artifact is stored under this name.
    RunArtifactConflict = "run_artifact_conflict", CONFLICT, false, "Another artifact is stored under this name",
        "A name stands for one file. Give another file another name.";
    /// The buyer cancelled.
    BuyerCancelled = "buyer_cancelled", CONFLICT, false, "The buyer has cancelled",
        "The job was cancelled, so its result is not taken. Drop the work.";
    /// The output is not what the service promises.
    VerificationFailed = "verification_failed", CONFLICT, false, "The output is not what the service promises",
        "The output was checked and refused; `detail` says why. The job does not get it.";
    /// The stored bytes are not the declared ones.
    UploadFailed = "upload_failed", CONFLICT, false, "The bytes are not those that were declared",
        "What lies in the store has another size or digest than the commit says. The attempt has ended; the job may be tried again.";
    /// The lease was taken back.
    ProviderOffline = "provider_offline", CONFLICT, false, "The lease was taken back",
        "The Mac was switched off, or an operator took the lease back. The attempt has ended; the job waits again.";
    /// The output is being checked.
    Verifying = "verifying", CONFLICT, true, "The output is being checked",
        "Send the identical commit again in a while: the answer will be the verdict.";
    /// Another request was made under the same id.
    RequestConflict = "request_conflict", CONFLICT, false, "The request id was used for another request",
        "The same `request_id` came before with other content. Take a new id for each new request.";
    /// We are overloaded or our database is away.
    Busy = "busy", SERVICE_UNAVAILABLE, true, "Too much at once",
        "We are overloaded, or our database is away. Ask again after `retry_after_ms`.";
    /// A mistake of ours.
    Internal = "internal_error", INTERNAL_SERVER_ERROR, true, "Something went wrong on our side",
        "A mistake of ours. It is safe to ask again; if it stays, tell the operators the `request_id`.";
    /// The clock is behind its mark.
    ClockRegressed = "clock_regressed", SERVICE_UNAVAILABLE, true, "The clock has gone back",
        "The clock that decides about leases is behind what it has shown before, so nothing can begin or expire. Nothing is lost: ask again after `Retry-After`.";
    /// The database is away, overloaded, or we are shutting down.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, true, "Not available at the moment",
        "The database is away or overloaded, or the gateway is stopping. Ask again after `Retry-After`.";
}

impl ProblemCode {
    /// The code that an agent knows by the same word.
    pub fn of_wire(code: fencepost_protocol::Code) -> Self {
        let same = Self::ALL.iter().find(|one| one.as_str() == code.as_str());
        // Every word is in the table (a test looks), but for that of newer gateways.
        same.copied().unwrap_or(Self::Internal)
    }

    /// The page that explains it, seen from the gateway.
    pub fn page(self) -> String {
        format!("/docs/problems#{}", self.as_str())
    }
}

impl Serialize for ProblemCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl JsonSchema for ProblemCode {
    fn schema_name() -> Cow<'static, str> {
        "ProblemCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<_> = Self::ALL.iter().map(|code| code.as_str()).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}
