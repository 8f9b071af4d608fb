//! What is said to the agent about what was decided. The store knows why it refused; the wire is
//! told one code per operation (see the protocol's `codes`).

use std::time::Duration;

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::{FenceViolation, Operation};
use fencepost_protocol::{Code, Directive, GatewayFrame};
use fencepost_store::FinalizedAttempt;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::hand_off::HandOffAnswer;
use fencepost_store::tx::record_progress::{ProgressAnswer, Renewal};
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal};

/// When to ask again after trouble of ours.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Milliseconds for the wire.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How long a clock must be waited for: never less than it is behind, for whoever comes back earlier
/// comes in vain.
pub(super) fn millis_behind(by: Duration) -> u64 {
    u64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A refusal with its code and what to do about it.
pub(super) fn rejected(code: Code, message: Option<&str>) -> GatewayFrame {
    let disposition = code.disposition();
    let retry = disposition == fencepost_protocol::Disposition::Retry;
    GatewayFrame::Rejected {
        code,
        disposition,
        retry_after_ms: retry.then(|| millis(RETRY_AFTER)),
        message: message.map(str::to_owned),
    }
}

/// The one answer to a refused claim, or to one that the clock cannot judge.
pub(super) fn refused(operation: Operation, refusal: Refusal) -> GatewayFrame {
    if refusal == Refusal::NotExtending {
        let what = "lease_ms: the lease runs that long already, or may run no longer";
        return rejected(Code::InvalidRequest, Some(what));
    }
    let violation = refusal.violation();
    let code = Code::for_violation(operation, violation);
    metrics::counter!(
        "fencepost_fenced_total",
        "operation" => operation.as_str(), "code" => code.as_str()
    )
    .increment(1);
    let mut frame = rejected(code, None);
    if let (FenceViolation::ClockRegressed { by }, GatewayFrame::Rejected { retry_after_ms, .. }) =
        (violation, &mut frame)
    {
        *retry_after_ms = Some(millis_behind(by));
    }
    frame
}

/// Done, for the first time.
pub(super) fn done() -> GatewayFrame {
    done_again(false)
}

/// Done, perhaps not for the first time.
pub(super) fn done_again(replayed: bool) -> GatewayFrame {
    GatewayFrame::Done {
        replayed,
        lease_remaining_ms: None,
    }
}

/// The answer to a hand-off; `None` is trouble of ours.
pub(super) fn to_hand_off(answer: Option<HandOffAnswer>) -> GatewayFrame {
    match answer {
        Some(HandOffAnswer::Done { replayed }) => done_again(replayed),
        Some(HandOffAnswer::Refused(refusal)) => refused(Operation::Retain, refusal),
        Some(HandOffAnswer::Invalid(problem)) => {
            rejected(Code::InvalidRequest, Some(&problem.to_string()))
        }
        None => trouble(),
    }
}

/// It is too late to decline.
pub(super) fn accepted_already() -> GatewayFrame {
    let what = "the offer was accepted already; send a release to give the lease back";
    rejected(Code::InvalidRequest, Some(what))
}

/// Our trouble: say it again.
pub(super) fn trouble() -> GatewayFrame {
    rejected(Code::Busy, None)
}

/// The answer to progress, or to an accept; `None` is trouble of ours.
pub(super) fn to_progress(answer: Option<ProgressAnswer>, is_accept: bool) -> GatewayFrame {
    let Some(answer) = answer else {
        return trouble();
    };
    match answer {
        ProgressAnswer::Renewed(lease) | ProgressAnswer::Verifying(lease) if is_accept => {
            GatewayFrame::Done {
                replayed: false,
                lease_remaining_ms: Some(millis(lease.remaining)),
            }
        }
        ProgressAnswer::Renewed(lease) | ProgressAnswer::Verifying(lease) => {
            progress_ok(lease, Directive::Continue, None)
        }
        ProgressAnswer::Stop { reason, lease } => progress_ok(lease, Directive::Stop, Some(reason)),
        ProgressAnswer::Refused(refusal) => refused(Operation::Progress, refusal),
    }
}

fn progress_ok(lease: Renewal, directive: Directive, reason: Option<String>) -> GatewayFrame {
    GatewayFrame::ProgressOk {
        lease_expires_at: lease.expires_at,
        lease_remaining_ms: millis(lease.remaining),
        directive,
        reason,
    }
}

/// The answer to an event; `None` is trouble of ours.
pub(super) fn to_event(answer: Option<JournalAnswer>) -> GatewayFrame {
    match answer {
        Some(JournalAnswer::Stored {
            replayed,
            lease_live,
            ..
        }) => GatewayFrame::EventOk {
            replayed,
            lease_live,
        },
        Some(JournalAnswer::Refused(refusal)) => {
            not_written(Operation::Event, Code::RunEventConflict, &refusal)
        }
        None => trouble(),
    }
}

/// The answer to an artifact; `None` is trouble of ours.
pub(super) fn to_artifact(answer: Option<JournalAnswer>) -> GatewayFrame {
    match answer {
        Some(JournalAnswer::Stored {
            replayed,
            lease_live,
            ..
        }) => GatewayFrame::ArtifactOk {
            replayed,
            lease_live,
        },
        Some(JournalAnswer::Refused(refusal)) => {
            not_written(Operation::Artifact, Code::RunArtifactConflict, &refusal)
        }
        None => trouble(),
    }
}

fn not_written(operation: Operation, conflict: Code, refusal: &JournalRefusal) -> GatewayFrame {
    match refusal {
        JournalRefusal::Lease(refusal) => refused(operation, *refusal),
        JournalRefusal::Content => rejected(conflict, None),
        JournalRefusal::Invalid(problem) => {
            rejected(Code::InvalidRequest, Some(&problem.to_string()))
        }
    }
}

/// The verdict on a commit whose attempt has ended.
pub(super) fn to_commit(end: &FinalizedAttempt, replayed: bool) -> GatewayFrame {
    let code = match (end.status(), end.code()) {
        (AttemptStatus::Succeeded, _) => return GatewayFrame::CommitOk { replayed },
        (AttemptStatus::Cancelled, _) => Code::BuyerCancelled,
        (_, Some(FailureCode::VerificationFailed)) => Code::VerificationFailed,
        (_, Some(FailureCode::UploadFailed)) => Code::UploadFailed,
        (_, Some(FailureCode::ProviderOffline)) => Code::ProviderOffline,
        _ => Code::InternalError,
    };
    let message = end
        .message()
        .unwrap_or("the job does not get this result")
        .to_owned();
    GatewayFrame::CommitRejected { code, message }
}

/// The answer to a fail, a release or a stopped.
pub(super) fn to_end(answer: Option<&AgentEndAnswer>) -> GatewayFrame {
    match answer {
        Some(AgentEndAnswer::Final { replayed, .. }) => GatewayFrame::Done {
            replayed: *replayed,
            lease_remaining_ms: None,
        },
        Some(AgentEndAnswer::Nothing) => done(),
        Some(AgentEndAnswer::Refused(refusal)) => refused(Operation::Fail, *refusal),
        None => trouble(),
    }
}
