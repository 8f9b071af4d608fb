//! The fence: one pure function that says whether whoever presents a lease still holds it.
//!
//! Five facts are compared: the authenticated device, the job, the attempt, the lease epoch and the
//! SHA-256 of the commit token (progress and grants present no token). The store calls [`check`] on
//! rows that it has locked, with the clock read after the lock, and repeats the same facts in the
//! `WHERE` of the write, so that a mistake in either is caught by the other.

use std::time::Duration;

use time::OffsetDateTime;

use crate::attempt::AttemptStatus;
use crate::clock::ClockReading;
use crate::commit_token::CommitTokenDigest;
use crate::ids::{AttemptId, DeviceId, JobId};

/// The four identities that an agent presents about its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseClaim {
    /// The device that authenticated; never taken from the message itself.
    pub device: DeviceId,
    /// The job it says it works on.
    pub job: JobId,
    /// The attempt it says is its own.
    pub attempt: AttemptId,
    /// The epoch that it was given.
    pub epoch: i64,
}

/// What is stored of an attempt's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptFence {
    /// The device that the attempt was leased to.
    pub device: DeviceId,
    /// The attempt's job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptId,
    /// The current epoch.
    pub epoch: i64,
    /// Digest of the current token; gone once the hand-off consumed it.
    pub digest: Option<CommitTokenDigest>,
    /// Where the attempt stands.
    pub status: AttemptStatus,
    /// When the lease ends; `None` once the attempt has ended.
    pub expires_at: Option<OffsetDateTime>,
}

/// What somebody wants to do with a lease, which decides what must be presented and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Say how far the work is, and renew.
    Progress,
    /// Ask for another grant.
    Grant,
    /// Write a journal event.
    Event,
    /// Name an artifact.
    Artifact,
    /// Publish a result.
    Commit,
    /// Report a failure.
    Fail,
    /// Give the lease back.
    Release,
    /// Give back a claim whose secret never arrived, by the claim's request id.
    GiveBack,
    /// Hand over what the attempt left, after its end (see [`crate::retention`]).
    Retain,
}

impl Operation {
    /// Its word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::Grant => "grant",
            Self::Event => "event",
            Self::Artifact => "artifact",
            Self::Commit => "commit",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::GiveBack => "give_back",
            Self::Retain => "retain",
        }
    }

    /// Whether the commit token must be presented.
    pub fn needs_token(self) -> bool {
        match self {
            Self::Progress | Self::Grant | Self::GiveBack => false,
            Self::Event
            | Self::Artifact
            | Self::Commit
            | Self::Fail
            | Self::Release
            | Self::Retain => true,
        }
    }

    /// Whether the operation makes sense for an attempt in `status`.
    fn allowed_in(self, status: AttemptStatus) -> bool {
        match self {
            Self::Commit => status == AttemptStatus::Uploading,
            Self::Retain => !status.is_live(),
            Self::Progress
            | Self::Grant
            | Self::Event
            | Self::Artifact
            | Self::Fail
            | Self::Release
            | Self::GiveBack => status.is_held_by_agent(),
        }
    }
}

/// Why a claim was refused. For logs and tests: the wire says less (see the protocol crate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FenceViolation {
    /// The attempt belongs to another device.
    #[error("the attempt belongs to another device")]
    ForeignDevice,
    /// The attempt belongs to another job.
    #[error("the attempt belongs to another job")]
    WrongJob,
    /// The rows are about different attempts: a mistake in our own code.
    #[error("the rows are about another attempt")]
    WrongAttempt,
    /// The epoch is not the current one.
    #[error("the lease epoch is not the current one")]
    StaleEpoch,
    /// The token is not the current one, or none was presented.
    #[error("the commit token is not the current one")]
    WrongToken,
    /// The attempt is in a status in which this cannot be done.
    #[error("the attempt is {status:?}")]
    WrongStatus {
        /// The attempt's status.
        status: AttemptStatus,
    },
    /// The lease has run out; at the very instant of its expiry it is already dead.
    #[error("the lease has expired")]
    Expired,
    /// All else is right, but the clock is behind its mark: whether the lease has run out is not
    /// known, and nothing runs out meanwhile.
    #[error("the clock is behind its mark by {by:?}")]
    ClockRegressed {
        /// By how much: for so long nothing is decided.
        by: Duration,
    },
}

/// Judges a claim against the stored lease by the clock. Identity is judged before status and time,
/// so that a stranger's answer does not depend on how the attempt, or the clock, is doing.
pub fn check(
    stored: &AttemptFence,
    claim: &LeaseClaim,
    presented: Option<&CommitTokenDigest>,
    operation: Operation,
    clock: ClockReading,
) -> Result<(), FenceViolation> {
    check_identity(stored, claim)?;
    if stored.epoch != claim.epoch {
        return Err(FenceViolation::StaleEpoch);
    }
    if operation.needs_token() && (presented.is_none() || presented != stored.digest.as_ref()) {
        return Err(FenceViolation::WrongToken);
    }
    if !operation.allowed_in(stored.status) {
        return Err(FenceViolation::WrongStatus {
            status: stored.status,
        });
    }
    if let Some(by) = clock.regressed_by() {
        return Err(FenceViolation::ClockRegressed { by });
    }
    match stored.expires_at {
        Some(expires_at) if expires_at > clock.now => Ok(()),
        Some(_) | None => Err(FenceViolation::Expired),
    }
}

/// The part of the fence that holds for the whole life of an attempt: whose it is.
pub fn check_identity(stored: &AttemptFence, claim: &LeaseClaim) -> Result<(), FenceViolation> {
    if stored.attempt != claim.attempt {
        return Err(FenceViolation::WrongAttempt);
    }
    if stored.device != claim.device {
        return Err(FenceViolation::ForeignDevice);
    }
    if stored.job != claim.job {
        return Err(FenceViolation::WrongJob);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit_token::{CommitToken, TOKEN_BYTES};
    use time::Duration as Span;

    const NOW: OffsetDateTime = time::macros::datetime!(2026-01-01 12:00 UTC);
    const CLOCK: ClockReading = ClockReading {
        now: NOW,
        mark: NOW,
    };

    fn digest(fill: u8) -> CommitTokenDigest {
        CommitToken::from_entropy([fill; TOKEN_BYTES]).digest()
    }

    fn fixture() -> (AttemptFence, LeaseClaim) {
        let claim = LeaseClaim {
            device: DeviceId::new(),
            job: JobId::new(),
            attempt: AttemptId::new(),
            epoch: 3,
        };
        let stored = AttemptFence {
            device: claim.device,
            job: claim.job,
            attempt: claim.attempt,
            epoch: 3,
            digest: Some(digest(1)),
            status: AttemptStatus::Uploading,
            expires_at: Some(NOW + Span::microseconds(1)),
        };
        (stored, claim)
    }

    fn commit(stored: &AttemptFence, claim: &LeaseClaim) -> Result<(), FenceViolation> {
        check(stored, claim, Some(&digest(1)), Operation::Commit, CLOCK)
    }

    #[test]
    fn the_holder_may_commit() {
        let (stored, claim) = fixture();
        assert_eq!(commit(&stored, &claim), Ok(()));
    }

    #[test]
    fn each_fact_alone_refuses() {
        let (stored, claim) = fixture();
        let other_device = LeaseClaim {
            device: DeviceId::new(),
            ..claim
        };
        assert_eq!(
            commit(&stored, &other_device),
            Err(FenceViolation::ForeignDevice)
        );
        let other_job = LeaseClaim {
            job: JobId::new(),
            ..claim
        };
        assert_eq!(commit(&stored, &other_job), Err(FenceViolation::WrongJob));
        for epoch in [0, 2, 4] {
            let other_epoch = LeaseClaim { epoch, ..claim };
            assert_eq!(
                commit(&stored, &other_epoch),
                Err(FenceViolation::StaleEpoch)
            );
        }
        let wrong = check(&stored, &claim, Some(&digest(2)), Operation::Commit, CLOCK);
        assert_eq!(wrong, Err(FenceViolation::WrongToken));
        let none = check(&stored, &claim, None, Operation::Commit, CLOCK);
        assert_eq!(none, Err(FenceViolation::WrongToken));
    }

    #[test]
    fn a_consumed_digest_matches_no_token() {
        let (mut stored, claim) = fixture();
        stored.digest = None;
        assert_eq!(commit(&stored, &claim), Err(FenceViolation::WrongToken));
        let none = check(&stored, &claim, None, Operation::Commit, CLOCK);
        assert_eq!(none, Err(FenceViolation::WrongToken));
    }

    #[test]
    fn a_lease_is_dead_at_the_instant_of_its_expiry() {
        let (mut stored, claim) = fixture();
        stored.expires_at = Some(NOW);
        assert_eq!(commit(&stored, &claim), Err(FenceViolation::Expired));
    }

    #[test]
    fn only_an_uploading_attempt_can_commit() {
        let (mut stored, claim) = fixture();
        for status in AttemptStatus::ALL {
            stored.status = status;
            let expected = if status == AttemptStatus::Uploading {
                Ok(())
            } else {
                Err(FenceViolation::WrongStatus { status })
            };
            assert_eq!(commit(&stored, &claim), expected);
        }
    }

    #[test]
    fn only_an_attempt_that_has_ended_can_be_handed_over() {
        let (mut stored, claim) = fixture();
        for status in AttemptStatus::ALL {
            stored.status = status;
            let retained = check(&stored, &claim, Some(&digest(1)), Operation::Retain, CLOCK);
            let refused = Err(FenceViolation::WrongStatus { status });
            assert_eq!(retained == refused, status.is_live(), "{status:?}");
        }
    }

    #[test]
    fn every_operation_has_a_word_of_its_own_in_metrics() {
        let words = [
            Operation::Progress,
            Operation::Grant,
            Operation::Event,
            Operation::Artifact,
            Operation::Commit,
            Operation::Fail,
            Operation::Release,
            Operation::GiveBack,
            Operation::Retain,
        ]
        .map(Operation::as_str);
        let expected = [
            "progress",
            "grant",
            "event",
            "artifact",
            "commit",
            "fail",
            "release",
            "give_back",
            "retain",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn progress_needs_no_token_but_everything_else() {
        let (stored, claim) = fixture();
        assert_eq!(
            check(&stored, &claim, None, Operation::Progress, CLOCK),
            Ok(())
        );
        let stale = LeaseClaim { epoch: 2, ..claim };
        let refused = check(&stored, &stale, None, Operation::Progress, CLOCK);
        assert_eq!(refused, Err(FenceViolation::StaleEpoch));
    }

    #[test]
    fn a_clock_behind_its_mark_decides_nothing_about_the_holder_and_tells_a_stranger_nothing() {
        let (mut stored, claim) = fixture();
        let clock = ClockReading {
            now: NOW,
            mark: NOW + Span::microseconds(3),
        };
        let commit = |stored: &AttemptFence, claim: &LeaseClaim, token: u8| {
            check(
                stored,
                claim,
                Some(&digest(token)),
                Operation::Commit,
                clock,
            )
        };
        let by = Duration::from_micros(3);
        let regressed = Err(FenceViolation::ClockRegressed { by });
        assert_eq!(commit(&stored, &claim, 1), regressed);
        let stale = LeaseClaim { epoch: 2, ..claim };
        assert_eq!(commit(&stored, &stale, 1), Err(FenceViolation::StaleEpoch));
        assert_eq!(commit(&stored, &claim, 2), Err(FenceViolation::WrongToken));
        // By a clock that is behind, nothing has expired either.
        stored.expires_at = Some(NOW);
        assert_eq!(commit(&stored, &claim, 1), regressed);
        stored.status = AttemptStatus::Committing;
        assert!(matches!(
            commit(&stored, &claim, 1),
            Err(FenceViolation::WrongStatus { .. })
        ));
    }
}
