use super::*;
use crate::attempt::AttemptStatus;
use crate::commit_token::{CommitToken, TOKEN_BYTES};
use crate::ids::{DeviceId, JobId};

const NOTHING: Kept = Kept {
    handed_over: false,
    handle_known: false,
    leaks: 0,
    event_with_handle: false,
};

fn digest(fill: u8) -> CommitTokenDigest {
    CommitToken::from_entropy([fill; TOKEN_BYTES]).digest()
}

fn ended() -> (AttemptFence, LeaseClaim) {
    let claim = LeaseClaim {
        device: DeviceId::new(),
        job: JobId::new(),
        attempt: AttemptId::new(),
        epoch: 3,
    };
    let fence = AttemptFence {
        device: claim.device,
        job: claim.job,
        attempt: claim.attempt,
        epoch: 3,
        digest: Some(digest(1)),
        status: AttemptStatus::Failed,
        expires_at: None,
    };
    (fence, claim)
}

fn judge(fence: &AttemptFence, claim: &LeaseClaim, kept: Kept) -> Verdict {
    decide(fence, claim, &digest(1), StoredHandOff::NotByCaller, kept)
}

#[test]
fn the_holder_of_an_ended_attempt_hands_over_and_nobody_else() {
    let (fence, claim) = ended();
    for status in AttemptStatus::ALL {
        let fence = AttemptFence { status, ..fence };
        let expected = if status.is_live() {
            Verdict::Refuse(FenceViolation::WrongStatus { status })
        } else {
            Verdict::Record
        };
        assert_eq!(judge(&fence, &claim, NOTHING), expected);
    }
    let other_device = LeaseClaim {
        device: DeviceId::new(),
        ..claim
    };
    let refused = Verdict::Refuse(FenceViolation::ForeignDevice);
    assert_eq!(judge(&fence, &other_device, NOTHING), refused);
    let other_job = LeaseClaim {
        job: JobId::new(),
        ..claim
    };
    let refused = Verdict::Refuse(FenceViolation::WrongJob);
    assert_eq!(judge(&fence, &other_job, NOTHING), refused);
    let newer = LeaseClaim { epoch: 4, ..claim };
    let refused = Verdict::Refuse(FenceViolation::StaleEpoch);
    assert_eq!(judge(&fence, &newer, NOTHING), refused);
    let not_by = StoredHandOff::NotByCaller;
    let wrong = decide(&fence, &claim, &digest(2), not_by, NOTHING);
    assert_eq!(wrong, Verdict::Refuse(FenceViolation::WrongToken));
}

#[test]
fn the_writers_repeat_comes_before_everything_but_identity() {
    let (mut fence, claim) = ended();
    fence.digest = None;
    fence.epoch = 9;
    let kept = Kept {
        handed_over: true,
        handle_known: true,
        ..NOTHING
    };
    for (identical, expected) in [(true, Verdict::Replay), (false, Verdict::OtherContent)] {
        let stored = StoredHandOff::ByCaller { identical };
        assert_eq!(decide(&fence, &claim, &digest(1), stored, kept), expected);
    }
    let stranger = LeaseClaim {
        device: DeviceId::new(),
        ..claim
    };
    let stored = StoredHandOff::ByCaller { identical: true };
    let refused = Verdict::Refuse(FenceViolation::ForeignDevice);
    assert_eq!(decide(&fence, &stranger, &digest(1), stored, kept), refused);
}

#[test]
fn a_handle_that_is_known_is_never_handed_over_again() {
    let (fence, claim) = ended();
    let kept = Kept {
        handle_known: true,
        leaks: 1,
        ..NOTHING
    };
    assert_eq!(judge(&fence, &claim, kept), Verdict::UsedHandle);
}

#[test]
fn what_would_leak_is_reaped_under_exactly_the_named_conditions() {
    let (fence, claim) = ended();
    let overtaken = AttemptFence { epoch: 4, ..fence };
    let stale = FenceViolation::StaleEpoch;
    let verdict = judge(&overtaken, &claim, NOTHING);
    assert_eq!(verdict, Verdict::RefuseAndReap(stale));
    for kept in [
        Kept {
            handed_over: true,
            ..NOTHING
        },
        Kept {
            event_with_handle: true,
            ..NOTHING
        },
        Kept {
            handle_known: true,
            ..NOTHING
        },
        Kept {
            leaks: MAX_LEAKS,
            ..NOTHING
        },
    ] {
        assert_eq!(judge(&overtaken, &claim, kept), Verdict::Refuse(stale));
    }
    for status in AttemptStatus::ALL.into_iter().filter(|one| one.is_live()) {
        let live = AttemptFence {
            status,
            ..overtaken
        };
        assert_eq!(judge(&live, &claim, NOTHING), Verdict::Refuse(stale));
    }
    // The same epoch with another token is no older lease, and a newer one does not exist.
    let consumed = AttemptFence {
        digest: None,
        ..fence
    };
    let refused = Verdict::Refuse(FenceViolation::WrongToken);
    assert_eq!(judge(&consumed, &claim, NOTHING), refused);
    let ahead = LeaseClaim { epoch: 5, ..claim };
    assert_eq!(judge(&overtaken, &ahead, NOTHING), Verdict::Refuse(stale));
}

#[test]
fn a_handle_begins_with_its_attempt_and_nothing_else() {
    let (attempt, other) = (AttemptId::new(), AttemptId::new());
    for good in ["", ".vm-1", "-a", ":x", "_y"] {
        assert!(check_handle(attempt, &format!("{attempt}{good}")).is_ok());
    }
    for bad in [
        String::new(),
        other.to_string(),
        format!("{attempt}x"),
        format!("{attempt}/../{other}"),
        format!("{attempt}.{}", "x".repeat(200)),
        attempt.to_string().to_uppercase(),
    ] {
        assert_eq!(check_handle(attempt, &bad).unwrap_err().field, "handle");
    }
}
