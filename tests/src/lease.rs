//! What a device holds: its credential and session, and the leases that it was given.

use std::ops::Deref;

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{DeviceId, EventId, InstanceId, SessionNumber};
use fencepost_domain::retention::DEFAULT_RETENTION;
use fencepost_domain::verification::Verdict;
use fencepost_store::secrets::Credential;
use fencepost_store::tx::begin_session::Held;
use fencepost_store::tx::begin_verification::{CommitRequest, DeclaredOutput, VerificationTicket};
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndKind};
use fencepost_store::tx::hand_off::HandOff;
use fencepost_store::tx::lease_round::{LeasedAttempt, Pull};
use fencepost_store::tx::record_progress::Progress;
use fencepost_store::tx::settle_commit::Settle;
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::NewEvent;
use serde_json::json;

use crate::world::OUTPUT_SHA256;

/// A paired device with its current session.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// Its credential.
    pub token: Credential,
    /// Its current session.
    pub session: SessionNumber,
    /// How many attempts it takes.
    pub slots: u32,
    /// What it has proven.
    pub words: Vec<String>,
    /// Its agent's process.
    pub instance: InstanceId,
}

/// A lease with its secret, as an agent holds it.
#[derive(Debug, Clone)]
pub struct Lease(pub LeasedAttempt);

impl Deref for Lease {
    type Target = LeasedAttempt;
    fn deref(&self) -> &LeasedAttempt {
        &self.0
    }
}

impl Lease {
    /// The four identities that it presents.
    pub fn claim(&self) -> LeaseClaim {
        LeaseClaim {
            device: self.device,
            job: self.job,
            attempt: self.attempt,
            epoch: self.epoch,
        }
    }

    /// SHA-256 of its secret.
    pub fn digest(&self) -> CommitTokenDigest {
        self.token.digest()
    }

    /// What its agent lists in a hello.
    pub fn held(&self) -> Held {
        Held {
            claim: self.claim(),
            token: self.digest(),
        }
    }

    /// Its commit of the output that the world uploads.
    pub fn commit(&self) -> CommitRequest {
        CommitRequest {
            claim: self.claim(),
            token: self.digest(),
            output: DeclaredOutput {
                object_key: self.output_key.clone(),
                sha256: OUTPUT_SHA256,
                size_bytes: 1_000,
            },
        }
    }

    /// Its progress into a phase.
    pub fn progress(&self, phase: Phase) -> Progress {
        Progress {
            claim: self.claim(),
            phase: Some(phase),
            percent: Some(50.0),
            detail: None,
        }
    }

    /// A new event of it.
    pub fn event(&self, seq: i64) -> NewEvent {
        NewEvent {
            claim: self.claim(),
            token: self.digest(),
            event_id: EventId::new(),
            seq,
            kind: "encoder.exit".to_owned(),
            payload: json!({"code": 1, "stderr": "no such filter"}),
        }
    }

    /// An artifact of it, at an object that was granted.
    pub fn artifact(&self, name: &str, object_key: &str) -> NewArtifact {
        NewArtifact {
            claim: self.claim(),
            token: self.digest(),
            name: name.to_owned(),
            object_key: object_key.to_owned(),
            sha256: [3; 32],
            size_bytes: 5,
        }
    }

    /// Its failure.
    pub fn fail(&self, code: FailureCode) -> AgentEnd {
        let kind = AgentEndKind::Fail {
            token: self.digest(),
            code,
            message: "it did not work".to_owned(),
        };
        AgentEnd {
            claim: self.claim(),
            kind,
        }
    }

    /// Its release.
    pub fn release(&self) -> AgentEnd {
        let kind = AgentEndKind::Release {
            token: self.digest(),
            reason: "the owner is back".to_owned(),
        };
        AgentEnd {
            claim: self.claim(),
            kind,
        }
    }

    /// Its workspace, as its agent hands it over: a name after the attempt's id.
    pub fn hand_off(&self, name: &str) -> HandOff {
        HandOff {
            claim: self.claim(),
            token: self.digest(),
            handle: format!("{}{name}", self.attempt),
            retain_for: DEFAULT_RETENTION,
        }
    }

    /// Its word that it has stopped.
    pub fn stopped(&self) -> AgentEnd {
        AgentEnd {
            claim: self.claim(),
            kind: AgentEndKind::Stopped,
        }
    }
}

impl Device {
    /// A pull for `slots_free` attempts.
    pub fn pull(&self, slots_free: u32) -> Pull {
        Pull {
            device: self.id,
            session: self.session,
            slots_free,
        }
    }
}

/// The verdict on a ticket, to settle.
pub fn settlement(ticket: &VerificationTicket, verdict: Verdict) -> Settle {
    Settle {
        attempt: ticket.attempt,
        verification_epoch: ticket.verification_epoch,
        copy_key: fencepost_domain::artifact_key::verified_copy(
            ticket.job,
            ticket.attempt,
            ticket.verification_epoch,
        ),
        verdict,
    }
}
