//! What an agent says about a lease. To say something wrong, change a copy of the offer first.

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::EventId;
use fencepost_protocol::{AgentFrame, GatewayFrame, LeaseOffer, OutputDeclaration};
use serde_json::json;

use crate::agent_client::Welcome;
use crate::gateway::hex_sha256;

/// What to declare of these bytes.
pub fn declared(offer: &LeaseOffer, bytes: &[u8]) -> OutputDeclaration {
    OutputDeclaration {
        sha256: hex_sha256(bytes),
        size_bytes: bytes.len() as u64,
        object_key: offer.output.object_key.clone(),
    }
}

/// The lease of an offer as it goes on after a welcome.
pub fn resumed(offer: &LeaseOffer, welcome: &Welcome) -> LeaseOffer {
    let mut lease = offer.clone();
    let found = welcome
        .resumed
        .iter()
        .find(|resumed| resumed.attempt_id == offer.attempt_id)
        .unwrap_or_else(|| panic!("not resumed: {welcome:?}"));
    lease.lease_epoch = found.lease_epoch;
    lease.commit_token = found.commit_token.clone();
    lease
}

/// I take the offer.
pub fn accept(offer: &LeaseOffer) -> AgentFrame {
    AgentFrame::OfferAccept {
        lease: offer.lease(),
    }
}

/// I do not take the offer.
pub fn decline(offer: &LeaseOffer) -> AgentFrame {
    AgentFrame::OfferDecline {
        lease: offer.lease(),
        reason: "too hot".to_owned(),
    }
}

/// I am in this phase.
pub fn progress(offer: &LeaseOffer, phase: Phase) -> AgentFrame {
    AgentFrame::Progress {
        lease: offer.lease(),
        phase,
        percent: Some(50.0),
        detail: None,
    }
}

/// Something for the journal.
pub fn event(offer: &LeaseOffer, event_id: EventId, seq: i64) -> AgentFrame {
    AgentFrame::Event {
        lease: offer.lease(),
        commit_token: offer.commit_token.clone(),
        event_id,
        seq,
        kind: "encoder.exit".to_owned(),
        payload: json!({"code": 1, "stderr": "no such filter"}),
    }
}

/// A file besides the output.
pub fn artifact(offer: &LeaseOffer, name: &str, object_key: &str, bytes: &[u8]) -> AgentFrame {
    AgentFrame::Artifact {
        lease: offer.lease(),
        commit_token: offer.commit_token.clone(),
        name: name.to_owned(),
        sha256: hex_sha256(bytes),
        size_bytes: bytes.len() as u64,
        object_key: object_key.to_owned(),
    }
}

/// I need a link.
pub fn grant(offer: &LeaseOffer, name: &str, direction: &str) -> AgentFrame {
    AgentFrame::Grant {
        lease: offer.lease(),
        name: name.to_owned(),
        direction: direction.to_owned(),
        first_part: None,
    }
}

/// This is my result.
pub fn commit(offer: &LeaseOffer, output: &OutputDeclaration) -> AgentFrame {
    AgentFrame::Commit {
        lease: offer.lease(),
        commit_token: offer.commit_token.clone(),
        output: output.clone(),
    }
}

/// I could not do it.
pub fn fail(offer: &LeaseOffer, code: &str) -> AgentFrame {
    AgentFrame::Fail {
        lease: offer.lease(),
        commit_token: offer.commit_token.clone(),
        failure_code: code.to_owned(),
        message: "it did not work".to_owned(),
    }
}

/// I give it back.
pub fn release(offer: &LeaseOffer) -> AgentFrame {
    AgentFrame::Release {
        lease: offer.lease(),
        commit_token: offer.commit_token.clone(),
        reason: "the owner is back".to_owned(),
    }
}

/// This is what my attempt left, called after it.
pub fn retain(offer: &LeaseOffer, retain_for: LeaseDuration) -> AgentFrame {
    AgentFrame::Retain {
        lease: offer.lease(),
        commit_token: offer.commit_token.clone(),
        handle: offer.attempt_id.to_string(),
        retain_for,
    }
}

/// I have stopped.
pub fn stopped(offer: &LeaseOffer) -> AgentFrame {
    AgentFrame::Stopped {
        lease: offer.lease(),
    }
}

/// Whether it says that this output is the job's; fails the test if not.
#[track_caller]
pub fn assert_won(answer: &GatewayFrame) {
    assert!(
        matches!(answer, GatewayFrame::CommitOk { .. }),
        "{answer:?}"
    );
}
