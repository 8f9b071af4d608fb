//! What a frame about an attempt asks for, or what is wrong with it.

use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::sha256;
use fencepost_protocol::{AgentFrame, OutputDeclaration};
use fencepost_store::tx::begin_verification::{CommitRequest, DeclaredOutput};
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndKind};
use fencepost_store::tx::hand_off::HandOff;
use fencepost_store::tx::record_progress::Progress;
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::NewEvent;

use super::lanes::OperationKind;

/// What a frame asks for.
pub(super) fn operation(
    frame: AgentFrame,
    claim: LeaseClaim,
) -> Result<OperationKind, &'static str> {
    Ok(match frame {
        AgentFrame::OfferAccept { .. } => OperationKind::Progress(Progress {
            claim,
            phase: None,
            percent: None,
            detail: None,
        }),
        AgentFrame::OfferDecline { .. } => OperationKind::Decline,
        AgentFrame::Progress {
            phase,
            percent,
            detail,
            ..
        } => OperationKind::Progress(Progress {
            claim,
            phase: Some(phase),
            percent,
            detail,
        }),
        AgentFrame::Grant {
            name,
            direction,
            first_part,
            ..
        } => OperationKind::Grant {
            name,
            direction,
            first_part,
        },
        AgentFrame::Commit {
            commit_token,
            output,
            ..
        } => OperationKind::Commit(CommitRequest {
            claim,
            token: commit_token.digest(),
            output: declared(output)?,
        }),
        record @ (AgentFrame::Event { .. }
        | AgentFrame::Artifact { .. }
        | AgentFrame::Retain { .. }) => return record_of(record, claim),
        end => OperationKind::End(AgentEnd {
            claim,
            kind: end_of(end)?,
        }),
    })
}

fn record_of(frame: AgentFrame, claim: LeaseClaim) -> Result<OperationKind, &'static str> {
    match frame {
        AgentFrame::Event {
            commit_token,
            event_id,
            seq,
            kind,
            payload,
            ..
        } => Ok(OperationKind::Event(NewEvent {
            claim,
            token: commit_token.digest(),
            event_id,
            seq,
            kind,
            payload,
        })),
        AgentFrame::Artifact {
            commit_token,
            name,
            sha256,
            size_bytes,
            object_key,
            ..
        } => Ok(OperationKind::Artifact(NewArtifact {
            claim,
            token: commit_token.digest(),
            name,
            object_key,
            sha256: sha256::parse(&sha256)
                .ok_or("sha256 must be 64 hexadecimal digits in lower case")?,
            size_bytes: i64::try_from(size_bytes).map_err(|_| "size_bytes is too large")?,
        })),
        AgentFrame::Retain {
            commit_token,
            handle,
            retain_for,
            ..
        } => Ok(OperationKind::HandOff(HandOff {
            claim,
            token: commit_token.digest(),
            handle,
            retain_for,
        })),
        _ => Err("the frame records nothing"),
    }
}

fn end_of(frame: AgentFrame) -> Result<AgentEndKind, &'static str> {
    match frame {
        AgentFrame::Fail {
            commit_token,
            failure_code,
            message,
            ..
        } => Ok(AgentEndKind::Fail {
            token: commit_token.digest(),
            code: FailureCode::reported(&failure_code),
            message,
        }),
        AgentFrame::Release {
            commit_token,
            reason,
            ..
        } => Ok(AgentEndKind::Release {
            token: commit_token.digest(),
            reason,
        }),
        AgentFrame::Stopped { .. } => Ok(AgentEndKind::Stopped),
        _ => Err("the frame is about no attempt"),
    }
}

fn declared(output: OutputDeclaration) -> Result<DeclaredOutput, &'static str> {
    let sha256 = sha256::parse(&output.sha256)
        .ok_or("output.sha256 must be 64 hexadecimal digits in lower case")?;
    let size_bytes =
        i64::try_from(output.size_bytes).map_err(|_| "output.size_bytes is too large")?;
    Ok(DeclaredOutput {
        object_key: output.object_key,
        sha256,
        size_bytes,
    })
}
