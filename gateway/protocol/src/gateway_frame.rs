//! Gateway → agent.

use std::fmt;

use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ids::{AttemptId, JobId, RequestId, SessionNumber};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use crate::agent_frame::LeaseRef;
use crate::codes::{Code, Disposition};

/// One message of a gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GatewayEnvelope {
    /// The request that this answers; none where the gateway speaks first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// What it says. Read before `lease`: serde takes the fields of a flattened struct away from
    /// whatever is read after it, and an offer has the same ones.
    #[serde(flatten)]
    pub frame: GatewayFrame,
    /// The lease that this is about, as the agent named it; an offer carries its own.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseRef>,
}

/// Everything a gateway may say.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GatewayFrame {
    /// The session is current; this is what became of what you hold.
    Welcome {
        /// Number of the session.
        session_id: SessionNumber,
        /// [`crate::PROTOCOL`] of the gateway.
        protocol: u32,
        /// How often to do what.
        intervals: Intervals,
        /// Leases that go on, under a new epoch and secret.
        resumed: Vec<Resumed>,
        /// Attempts whose commit or fail is stored already.
        recorded: Vec<Recorded>,
        /// Leases that are gone.
        lost: Vec<Lost>,
    },
    /// Here is work. The secret leaves once, here.
    LeaseOffer(Box<LeaseOffer>),
    /// There was nothing for you; pull again.
    NoWork,
    /// The progress is recorded and the lease renewed, unless the directive says stop.
    ProgressOk {
        /// The end of the lease by Postgres's clock, for people.
        #[serde(with = "time::serde::rfc3339")]
        lease_expires_at: OffsetDateTime,
        /// The rest of the lease, for the agent's own monotonic deadline.
        lease_remaining_ms: u64,
        /// Whether to go on.
        directive: Directive,
        /// Why to stop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The event is stored.
    EventOk {
        /// Whether it was stored before.
        replayed: bool,
        /// Whether the lease that was named is live.
        lease_live: bool,
    },
    /// The artifact is stored.
    ArtifactOk {
        /// Whether it was stored before.
        replayed: bool,
        /// Whether the lease that was named is live.
        lease_live: bool,
    },
    /// A new link.
    Granted {
        /// Where to read or write.
        url: String,
        /// The object behind it.
        object_key: String,
        /// Links to parts, if they were asked for and there are such.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parts: Option<PartLinks>,
    },
    /// The result is verified and published.
    CommitOk {
        /// Whether this is the stored answer to an earlier identical commit.
        replayed: bool,
    },
    /// The verdict on the commit: the job does not get this result.
    CommitRejected {
        /// Why.
        code: Code,
        /// Why, for a person.
        message: String,
    },
    /// Done (accept, decline, fail, release, stopped, retain, reaped).
    Done {
        /// Whether this is the stored answer to an earlier identical request.
        replayed: bool,
        /// After an accept: the rest of the renewed lease.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_remaining_ms: Option<u64>,
    },
    /// Refused.
    Rejected {
        /// Why.
        code: Code,
        /// What to do about it.
        disposition: Disposition,
        /// When to ask again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// What is wrong, where the content is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Stop this attempt and confirm with `stopped`.
    Cancel {
        /// `buyer_cancelled` or `revoked`.
        reason: String,
    },
    /// What you kept under this handle has been kept long enough: delete it and say `reaped`, also if
    /// you know nothing of it.
    Reap {
        /// What you called it.
        handle: String,
    },
    /// No new work will be offered.
    DrainAck,
    /// Too much at once: say it again later.
    Busy {
        /// When.
        retry_after_ms: u64,
    },
    /// The device is disabled: stop, and do not come back.
    Disabled,
    /// The agent is too old.
    UpgradeRequired,
    /// I am here.
    Heartbeat,
    /// A frame of a newer gateway.
    #[serde(other)]
    Unknown,
}

/// Whether the agent may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Directive {
    /// Go on.
    Continue,
    /// Stop, drop the work, confirm with `stopped`.
    Stop,
}

/// How often to do what, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervals {
    /// Length of a lease.
    pub lease_ttl_ms: u64,
    /// Renew at least this often.
    pub renew_ms: u64,
    /// Give up the socket if a renewal is not answered for this long.
    pub answer_ms: u64,
    /// Send a heartbeat at least this often.
    pub heartbeat_ms: u64,
    /// The other side is dead after this long a silence.
    pub dead_ms: u64,
    /// The longest wait before reconnecting while a lease is held.
    pub reconnect_max_ms: u64,
}

/// A lease that goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resumed {
    /// The job.
    pub job_id: JobId,
    /// The attempt.
    pub attempt_id: AttemptId,
    /// The new epoch.
    pub lease_epoch: i64,
    /// The new secret.
    pub commit_token: CommitToken,
    /// The rest of the renewed lease.
    pub lease_remaining_ms: u64,
}

/// An attempt whose commit or fail is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The attempt.
    pub attempt_id: AttemptId,
    /// Its status.
    pub status: String,
}

/// A lease that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The attempt.
    pub attempt_id: AttemptId,
    /// Why, for the log.
    pub reason: String,
}

/// Work, and the right to do it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LeaseOffer {
    /// The job.
    pub job_id: JobId,
    /// The attempt.
    pub attempt_id: AttemptId,
    /// Which attempt of the job this is, from 1.
    pub attempt_number: i32,
    /// The epoch of the lease.
    pub lease_epoch: i64,
    /// The secret of the lease.
    pub commit_token: CommitToken,
    /// The accept deadline by Postgres's clock, for people.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub lease_expires_at: OffsetDateTime,
    /// The rest of the time to accept.
    pub lease_remaining_ms: u64,
    /// Name of the service.
    pub service: String,
    /// Its parameters.
    pub params: Value,
    /// What to fetch.
    pub inputs: Vec<InputGrant>,
    /// Where to put the result.
    pub output: OutputGrant,
    /// What not to exceed.
    pub limits: Limits,
    /// W3C trace context of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl LeaseOffer {
    /// The lease that is offered.
    pub fn lease(&self) -> LeaseRef {
        LeaseRef {
            job_id: self.job_id,
            attempt_id: self.attempt_id,
            lease_epoch: self.lease_epoch,
        }
    }
}

/// One input to fetch.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct InputGrant {
    /// The service's name for it.
    pub name: String,
    /// Where it is: absolute, or relative to the gateway's HTTP address. If `max_bytes` is there, it is
    /// the buyer's own address, always absolute, and no link of the gateway's.
    pub url: String,
    /// SHA-256 of its bytes in hexadecimal; may be missing only where `max_bytes` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Number of bytes; may be missing only where `max_bytes` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Only of what is on a host of the buyer's choice: the most bytes that may be taken from there.
    /// Whoever fetches it must not let the buyer reach networks that are not public; there are no fresh
    /// links to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

impl InputGrant {
    /// Whether it is on a host of the buyer's choice.
    pub fn is_elsewhere(&self) -> bool {
        self.max_bytes.is_some()
    }
}

/// Without the address, which is as good as the file.
impl fmt::Debug for InputGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputGrant")
            .field("name", &self.name)
            .field("sha256", &self.sha256)
            .field("size_bytes", &self.size_bytes)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// Where the result goes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OutputGrant {
    /// Where to PUT it, absolute or relative to the gateway's HTTP address.
    pub url: String,
    /// The key to declare in the commit.
    pub object_key: String,
    /// The most bytes that are taken.
    pub max_bytes: u64,
    /// What has more bytes than this is sent in parts: ask for their links by a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts_above: Option<u64>,
}

/// Links to some of the parts of an output. When all are there, the commit makes them one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartLinks {
    /// The size of every part but the last.
    pub part_bytes: u64,
    /// The number of the part that the first link is for; the others follow.
    pub first_part: u32,
    /// Where to PUT them. Ask again for those after the last.
    pub urls: Vec<String>,
}

/// What an attempt must not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The longest output, in seconds.
    pub max_output_seconds: u32,
    /// The longest run, in seconds from the lease on.
    pub max_run_seconds: u64,
}
