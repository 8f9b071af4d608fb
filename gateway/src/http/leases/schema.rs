//! What requests about leases look like, for the description of the API. Their readers, beside their
//! handlers, have the better words for what is wrong; a test compares the two.

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::{EventId, JobId, RequestId};
use fencepost_domain::retention::DEFAULT_RETENTION;
use fencepost_domain::service::Capability;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// A hexadecimal SHA-256.
const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// What an attempt calls its events and artifacts.
const IDENTIFIER: &str = "^[a-z0-9_][a-z0-9._-]{0,63}$";

/// A device asks for a lease.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewClaim {
    /// A new id for each claim; the same one gets the same lease, without its secret.
    request_id: RequestId,
    /// What the worker can do; left out: what the device's agent said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    capabilities: Option<Vec<Capability>>,
    /// How many attempts the device works on at once, if its agent never connected; left out: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    slots: Option<u8>,
}

/// Which lease a request is about; the attempt stands in the address.
#[derive(Debug, Serialize, JsonSchema)]
struct Lease {
    /// The job.
    job_id: JobId,
    /// The epoch that you hold.
    #[schemars(range(min = 1, max = i64::MAX))]
    lease_epoch: i64,
}

/// A request about a lease, with an id of its own.
#[derive(Debug, Serialize, JsonSchema)]
struct Asked {
    /// A new id for each request; the same one with the same content gets the same answer.
    request_id: RequestId,
    #[serde(flatten)]
    lease: Lease,
}

/// How far the work is; renews the lease.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewProgress {
    #[serde(flatten)]
    asked: Asked,
    /// What is being done; phases only move forward.
    phase: Phase,
    /// How much of the phase is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    percent: Option<f32>,
    /// One line for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// The lease is to run on.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewRenewal {
    #[serde(flatten)]
    asked: Asked,
    /// For how long from now on, at most as long as leases are; left out: that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    lease_ms: Option<u64>,
}

/// A link is needed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewGrant {
    #[serde(flatten)]
    asked: Asked,
    /// The input to `get`, or `output` or an artifact to `put`.
    #[schemars(regex(pattern = IDENTIFIER))]
    name: String,
    /// Which way the bytes go.
    #[schemars(extend("enum" = ["get", "put"]))]
    direction: &'static str,
    /// For `output`: from which part on links to parts are wanted, if there are such.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    first_part: Option<u32>,
}

/// Something for the journal; said again until it is answered.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewEvent {
    #[serde(flatten)]
    lease: Lease,
    /// The secret of the lease.
    commit_token: CommitToken,
    /// Your id for it; the same whenever it is said again.
    event_id: EventId,
    /// Your number for it.
    #[schemars(range(min = 0, max = i64::MAX))]
    seq: i64,
    /// What happened, as an identifier such as `encoder.exit`.
    #[schemars(regex(pattern = IDENTIFIER))]
    kind: String,
    /// What there is to say about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

/// A file besides the output, uploaded to an object that was granted under this name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewArtifact {
    #[serde(flatten)]
    lease: Lease,
    /// The secret of the lease.
    commit_token: CommitToken,
    /// Its name, an identifier such as `encoder.log`.
    #[schemars(regex(pattern = IDENTIFIER))]
    name: String,
    #[serde(flatten)]
    file: File,
}

/// Bytes that were put to a granted link.
#[derive(Debug, Serialize, JsonSchema)]
struct File {
    /// SHA-256 of the bytes, 64 hexadecimal digits in lower case.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    sha256: String,
    /// Number of bytes.
    #[schemars(range(min = 0, max = i64::MAX))]
    size_bytes: i64,
    /// The key that was granted.
    object_key: String,
}

/// The work is done.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewCommit {
    #[serde(flatten)]
    asked: Asked,
    /// The secret of the lease.
    commit_token: CommitToken,
    /// What was uploaded.
    output: CommittedFile,
}

/// The output, as it was uploaded.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CommittedFile {
    #[serde(flatten)]
    file: File,
}

/// The work cannot be done.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewFailure {
    #[serde(flatten)]
    asked: Asked,
    /// The secret of the lease.
    commit_token: CommitToken,
    /// Why; an unknown code counts as `internal_error`.
    failure_code: String,
    /// What happened, for the buyer.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The lease is given back, unfinished.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("oneOf" = [
    {
        "required": ["commit_token"],
        "properties": { "commit_token": { "type": "string" }, "claim_request_id": { "type": "null" } },
    },
    {
        "required": ["claim_request_id"],
        "properties": { "claim_request_id": { "type": "string" }, "commit_token": { "type": "null" } },
    },
]))]
pub(super) struct NewRelease {
    #[serde(flatten)]
    asked: Asked,
    /// The secret of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_token: Option<CommitToken>,
    /// In the place of the secret: the id of the claim whose answer never arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_request_id: Option<RequestId>,
    /// Why, for the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What an ended attempt left on the device.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct NewRetention {
    #[serde(flatten)]
    lease: Lease,
    /// The secret under which the attempt ended, which this uses up.
    commit_token: CommitToken,
    /// What the device calls it; begins with the attempt's id.
    #[schemars(regex(pattern = "^[0-9a-f-]{36}[A-Za-z0-9._:-]{0,164}$"))]
    handle: String,
    /// How long the device keeps it: 1us to 24h, in one of us, ms, s, m, h; left out: `15m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^0*[1-9][0-9]{0,10}(us|ms|s|m|h)$"))]
    retain_for: Option<String>,
}

impl NewClaim {
    pub(super) fn example() -> Self {
        Self {
            request_id: request_id(),
            capabilities: Some(vec![
                Capability::new("transcode.v1"),
                Capability::new("encode.h264"),
            ]),
            slots: Some(1),
        }
    }
}

impl NewProgress {
    pub(super) fn example() -> Self {
        Self {
            asked: Asked::example(),
            phase: Phase::Running,
            percent: Some(40.0),
            detail: Some("frame 960 of 2400".to_owned()),
        }
    }
}

impl NewRenewal {
    pub(super) fn example() -> Self {
        Self {
            asked: Asked::example(),
            lease_ms: None,
        }
    }
}

impl NewGrant {
    pub(super) fn example() -> Self {
        Self {
            asked: Asked::example(),
            name: "output".to_owned(),
            direction: "put",
            first_part: None,
        }
    }
}

impl NewEvent {
    pub(super) fn example() -> Self {
        Self {
            lease: Lease::example(),
            commit_token: secret(),
            event_id: EventId(an_id(4)),
            seq: 1,
            kind: "encoder.exit".to_owned(),
            payload: Some(json!({ "code": 0 })),
        }
    }
}

impl NewArtifact {
    pub(super) fn example() -> Self {
        Self {
            lease: Lease::example(),
            commit_token: secret(),
            name: "encoder.log".to_owned(),
            file: File::example(),
        }
    }
}

impl NewCommit {
    pub(super) fn example() -> Self {
        Self {
            asked: Asked::example(),
            commit_token: secret(),
            output: CommittedFile {
                file: File::example(),
            },
        }
    }
}

impl NewFailure {
    pub(super) fn example() -> Self {
        Self {
            asked: Asked::example(),
            commit_token: secret(),
            failure_code: FailureCode::RunnerFailed.as_str().to_owned(),
            message: Some("the encoder stopped".to_owned()),
        }
    }
}

impl NewRelease {
    pub(super) fn example() -> Self {
        Self {
            asked: Asked::example(),
            commit_token: Some(secret()),
            claim_request_id: None,
            reason: Some("the owner is back".to_owned()),
        }
    }
}

impl NewRetention {
    pub(super) fn example() -> Self {
        Self {
            lease: Lease::example(),
            commit_token: secret(),
            handle: format!("{}-work", an_id(2)),
            retain_for: Some(DEFAULT_RETENTION.to_string()),
        }
    }
}

impl Asked {
    fn example() -> Self {
        Self {
            request_id: request_id(),
            lease: Lease::example(),
        }
    }
}

impl Lease {
    fn example() -> Self {
        Self {
            job_id: JobId(an_id(1)),
            lease_epoch: 1,
        }
    }
}

impl File {
    fn example() -> Self {
        Self {
            sha256: SHA256.to_owned(),
            size_bytes: 4_096,
            object_key: format!("attempts/{}/output", an_id(2)),
        }
    }
}

fn an_id(number: u128) -> Uuid {
    Uuid::from_u128(0x019a_df00_0000_7000_8000_0000_0000_0000 + number)
}

fn request_id() -> RequestId {
    RequestId(an_id(3))
}

/// Nobody's secret.
fn secret() -> CommitToken {
    CommitToken::from_entropy([0; 24])
}
