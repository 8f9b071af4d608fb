//! Agent → gateway.

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{AttemptId, DeviceId, EventId, InstanceId, JobId, RequestId};
use fencepost_domain::retention::DEFAULT_RETENTION;
use fencepost_domain::service::Capability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentEnvelope {
    /// Echoed by the answer.
    pub request_id: RequestId,
    /// What it says.
    #[serde(flatten)]
    pub frame: AgentFrame,
}

/// Which lease a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseRef {
    /// The job.
    pub job_id: JobId,
    /// The attempt.
    pub attempt_id: AttemptId,
    /// The epoch that the agent holds.
    pub lease_epoch: i64,
}

impl LeaseRef {
    /// The claim that an authenticated device makes by naming this lease.
    pub fn claimed_by(self, device: DeviceId) -> LeaseClaim {
        LeaseClaim {
            device,
            job: self.job_id,
            attempt: self.attempt_id,
            epoch: self.lease_epoch,
        }
    }
}

/// Everything an agent may say.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentFrame {
    /// The first frame of a session: who I am and what I still hold.
    Hello(Hello),
    /// I can take this many more attempts. Stands until offers or `no_work`.
    Pull {
        /// Free slots.
        slots_free: u32,
    },
    /// I take the offer.
    OfferAccept {
        /// The offered lease.
        #[serde(flatten)]
        lease: LeaseRef,
    },
    /// I do not take the offer.
    OfferDecline {
        /// The offered lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Why, for the log.
        reason: String,
    },
    /// How far I am; renews the lease.
    Progress {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// What I am doing.
        phase: Phase,
        /// How much of the phase is done, 0 to 100, if I can tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        percent: Option<f32>,
        /// One line for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Something for the journal. Said again until it is answered, under the epoch and secret that
    /// it was first said with.
    Event {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Its secret.
        commit_token: CommitToken,
        /// The agent's id for it; the same whenever it is said again.
        event_id: EventId,
        /// The agent's number for it.
        seq: i64,
        /// What happened, as an identifier such as `encoder.exit`.
        kind: String,
        /// What there is to say about it.
        #[serde(default)]
        payload: Value,
    },
    /// A file besides the output, uploaded to an object that was granted under this name.
    Artifact {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Its secret.
        commit_token: CommitToken,
        /// Its name, an identifier such as `encoder.log`.
        name: String,
        /// SHA-256 of the bytes, 64 lower-case hexadecimal digits.
        sha256: String,
        /// Number of bytes.
        size_bytes: u64,
        /// Where it was put.
        object_key: String,
    },
    /// I need a new link for an object of my attempt.
    Grant {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Name of the input, or `output`, or (to put) an artifact's name.
        name: String,
        /// `get` or `put`.
        direction: String,
        /// For `output`: from which part on links to parts are wanted, from 1. See
        /// [`crate::OutputGrant::parts_above`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_part: Option<u32>,
    },
    /// This is my result.
    Commit {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Its secret.
        commit_token: CommitToken,
        /// What was uploaded.
        output: OutputDeclaration,
    },
    /// I could not do it.
    Fail {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Its secret.
        commit_token: CommitToken,
        /// A code of `fencepost_domain::failure::FailureCode`; unknown ones count as
        /// `internal_error`.
        failure_code: String,
        /// What happened, for the buyer.
        message: String,
    },
    /// I give the lease back, unfinished.
    Release {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Its secret.
        commit_token: CommitToken,
        /// Why, for the log.
        reason: String,
    },
    /// I have stopped (or never knew) this attempt.
    Stopped {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
    },
    /// My attempt has ended; this is what it left on this machine, and for how long I keep it. Needs
    /// the lease under which it ended.
    Retain {
        /// The lease.
        #[serde(flatten)]
        lease: LeaseRef,
        /// Its secret, which this uses up.
        commit_token: CommitToken,
        /// What I call it; begins with the attempt's id.
        handle: String,
        /// How long it is kept, such as `15m`.
        #[serde(default = "default_retention")]
        retain_for: LeaseDuration,
    },
    /// What was kept under this handle is gone.
    Reaped {
        /// What I called it.
        handle: String,
    },
    /// Give me no new work.
    Drain {
        /// `finish` what I hold or `release` it.
        mode: String,
    },
    /// I am here.
    Heartbeat,
}

fn default_retention() -> LeaseDuration {
    DEFAULT_RETENTION
}

/// The first frame of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL`] of the agent.
    pub protocol: u32,
    /// Version of the agent.
    pub agent_version: String,
    /// This run of the agent's process.
    pub instance_id: InstanceId,
    /// How many attempts it can work on at once.
    pub slots: u32,
    /// What it has proven to be able to do.
    pub capabilities: Vec<Capability>,
    /// The leases that it still holds.
    pub held: Vec<HeldLease>,
}

/// A lease that an agent still holds when it connects.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldLease {
    /// The lease.
    #[serde(flatten)]
    pub lease: LeaseRef,
    /// Its secret.
    pub commit_token: CommitToken,
}

/// What an agent says that it uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputDeclaration {
    /// SHA-256 of the bytes, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Number of bytes.
    pub size_bytes: u64,
    /// Where it was put: a key that was granted to this attempt.
    pub object_key: String,
}

impl AgentFrame {
    /// The lease that the frame is about, if it is about one.
    pub fn lease(&self) -> Option<LeaseRef> {
        match self {
            Self::OfferAccept { lease }
            | Self::OfferDecline { lease, .. }
            | Self::Progress { lease, .. }
            | Self::Event { lease, .. }
            | Self::Artifact { lease, .. }
            | Self::Grant { lease, .. }
            | Self::Commit { lease, .. }
            | Self::Fail { lease, .. }
            | Self::Release { lease, .. }
            | Self::Retain { lease, .. }
            | Self::Stopped { lease } => Some(*lease),
            Self::Hello(_)
            | Self::Pull { .. }
            | Self::Reaped { .. }
            | Self::Drain { .. }
            | Self::Heartbeat => None,
        }
    }
}
