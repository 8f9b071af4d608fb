//! The hand-off of an ended attempt's workspace, as one decision.
//!
//! It needs the whole lease of an attempt that has ended, and consumes the token. A hand-off that is
//! refused changes nothing, with one exception against leaks: an agent that was overtaken while it
//! was making its workspace would otherwise leave it for ever.

use crate::commit_token::CommitTokenDigest;
use crate::duration::LeaseDuration;
use crate::fencing::{AttemptFence, FenceViolation, LeaseClaim, check_identity};
use crate::field::FieldError;
use crate::ids::AttemptId;

/// How long the workspace of a failed run is kept if nobody says otherwise.
pub const DEFAULT_RETENTION: LeaseDuration = LeaseDuration::seconds(900);
/// The longest handle, in bytes.
pub const MAX_HANDLE_BYTES: usize = 200;
/// The most workspaces that are recorded of one attempt beside the one that was handed over.
pub const MAX_LEAKS: i64 = 8;

/// What is stored about the attempt's workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The attempt has a workspace: a handle, a deadline, and perhaps somebody cleaning up.
    pub handed_over: bool,
    /// This very handle was recorded before, reaped or not.
    pub handle_known: bool,
    /// How many were recorded of refused hand-offs.
    pub leaks: i64,
    /// An event of the attempt carried a handle.
    pub event_with_handle: bool,
}

/// The stored hand-off, seen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredHandOff {
    /// None, or another writer's.
    NotByCaller,
    /// The caller's own.
    ByCaller {
        /// Whether it means the same as what was presented.
        identical: bool,
    },
}

/// What to do about a hand-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Record the workspace and consume the token.
    Record,
    /// Answer as before; write nothing.
    Replay,
    /// Refuse: the caller has handed something else over.
    OtherContent,
    /// Refuse: a handle is used once. What was reaped is never handed back.
    UsedHandle,
    /// Refuse.
    Refuse(FenceViolation),
    /// Refuse, but record the handle in a row of its own, to be reaped at once.
    RefuseAndReap(FenceViolation),
}

/// Judges a hand-off.
pub fn decide(
    fence: &AttemptFence,
    claim: &LeaseClaim,
    token: &CommitTokenDigest,
    stored: StoredHandOff,
    kept: Kept,
) -> Verdict {
    if let Err(violation) = check_identity(fence, claim) {
        return Verdict::Refuse(violation);
    }
    match stored {
        StoredHandOff::ByCaller { identical: true } => return Verdict::Replay,
        StoredHandOff::ByCaller { identical: false } => return Verdict::OtherContent,
        StoredHandOff::NotByCaller => {}
    }
    match check_holder(fence, claim, token) {
        Ok(()) if kept.handle_known => Verdict::UsedHandle,
        Ok(()) => Verdict::Record,
        Err(violation) if would_leak(fence, claim, kept) => Verdict::RefuseAndReap(violation),
        Err(violation) => Verdict::Refuse(violation),
    }
}

fn check_holder(
    fence: &AttemptFence,
    claim: &LeaseClaim,
    token: &CommitTokenDigest,
) -> Result<(), FenceViolation> {
    if fence.epoch != claim.epoch {
        return Err(FenceViolation::StaleEpoch);
    }
    if fence.digest.as_ref() != Some(token) {
        return Err(FenceViolation::WrongToken);
    }
    if fence.status.is_live() {
        let status = fence.status;
        return Err(FenceViolation::WrongStatus { status });
    }
    Ok(())
}

/// Whether nobody else can know of a workspace that the caller speaks of.
fn would_leak(fence: &AttemptFence, claim: &LeaseClaim, kept: Kept) -> bool {
    !fence.status.is_live()
        && fence.epoch > claim.epoch
        && !kept.handed_over
        && !kept.event_with_handle
        && !kept.handle_known
        && kept.leaks < MAX_LEAKS
}

/// Checks that a handle is one of this attempt's, so that nobody can name another's workspace.
pub fn check_handle(attempt: AttemptId, handle: &str) -> Result<(), FieldError> {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"._:-".contains(&c);
    let own = handle
        .strip_prefix(&attempt.to_string())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', '-', '_']));
    if own && handle.len() <= MAX_HANDLE_BYTES && handle.bytes().all(allowed) {
        return Ok(());
    }
    let problem = format!(
        "must begin with the attempt's id and be at most {MAX_HANDLE_BYTES} of letters, digits, \
         '.', '_', ':' and '-'"
    );
    Err(FieldError::new("handle", problem))
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
