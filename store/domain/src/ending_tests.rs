use super::*;
use time::macros::datetime;

const NOW: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);

const CAUSES: [Cause; 16] = [
    Cause::ResumeBound,
    Cause::ExpiredInOutage,
    Cause::ClockAccepted,
    Cause::Undelivered,
    Cause::Verified,
    Cause::MediaRejected,
    Cause::BytesDiffer,
    Cause::VerificationTrouble,
    Cause::AgentFailed(FailureCode::UploadFailed),
    Cause::Released,
    Cause::Stopped,
    Cause::Expired,
    Cause::Returned,
    Cause::Forgotten,
    Cause::Revoked,
    Cause::CancelForced,
];

fn job() -> JobFacts {
    JobFacts {
        status: JobStatus::Active,
        max_attempts: 3,
        charged_attempts: 0,
        returned_offers: 0,
        returned_widely: false,
        admission_deadline: NOW + time::Duration::HOUR,
    }
}

#[test]
fn nothing_but_cancelled_comes_out_of_cancelling() {
    let job = JobFacts {
        status: JobStatus::Cancelling,
        ..job()
    };
    for cause in CAUSES {
        let ending = decide(&job, cause, NOW);
        assert_eq!(ending.job, JobNext::Cancelled, "{cause:?}");
        assert_eq!(ending.attempt, AttemptStatus::Cancelled, "{cause:?}");
        assert!(!ending.charged);
    }
}

#[test]
fn every_end_of_an_attempt_is_an_arrow_of_both_state_machines() {
    for cause in CAUSES {
        let (job_status, attempt_status) = match cause {
            Cause::Verified
            | Cause::MediaRejected
            | Cause::BytesDiffer
            | Cause::VerificationTrouble => (JobStatus::Verifying, AttemptStatus::Committing),
            _ => (JobStatus::Active, AttemptStatus::Running),
        };
        let ending = decide(
            &JobFacts {
                status: job_status,
                ..job()
            },
            cause,
            NOW,
        );
        assert!(job_status.can_become(ending.job.status()), "{cause:?}");
        assert!(attempt_status.can_become(ending.attempt), "{cause:?}");
    }
}

#[test]
fn the_last_charged_attempt_fails_the_job_and_no_earlier_one_does() {
    for cause in [
        Cause::Expired,
        Cause::AgentFailed(FailureCode::UploadFailed),
    ] {
        for charged_attempts in 0..3 {
            let ending = decide(
                &JobFacts {
                    charged_attempts,
                    ..job()
                },
                cause,
                NOW,
            );
            let failed = matches!(ending.job, JobNext::Failed(_));
            assert_eq!(
                failed,
                charged_attempts == 2,
                "{cause:?} after {charged_attempts}"
            );
        }
    }
}

#[test]
fn every_retryable_code_is_retried_and_no_other() {
    for code in FailureCode::ALL {
        let ending = decide(&job(), Cause::AgentFailed(*code), NOW);
        let requeued = matches!(ending.job, JobNext::Queued { .. });
        assert_eq!(requeued, code.is_retryable(), "{code:?}");
    }
}

#[test]
fn a_retryable_failure_after_the_deadline_fails_the_job() {
    let job = JobFacts {
        admission_deadline: NOW,
        ..job()
    };
    let ending = decide(&job, Cause::AgentFailed(FailureCode::UploadFailed), NOW);
    assert_eq!(ending.job, JobNext::Failed(FailureCode::DeadlineExceeded));
}

#[test]
fn returns_releases_and_revokes_are_free() {
    let job = JobFacts {
        charged_attempts: 2,
        ..job()
    };
    for cause in [
        Cause::Returned,
        Cause::Released,
        Cause::Revoked,
        Cause::Undelivered,
        Cause::ExpiredInOutage,
    ] {
        let ending = decide(&job, cause, NOW);
        assert!(!ending.charged);
        assert!(matches!(ending.job, JobNext::Queued { .. }), "{cause:?}");
    }
}

#[test]
fn delays_double_up_to_five_minutes_and_the_first_loss_costs_none() {
    let delay = |charged_attempts, cause| {
        let job = JobFacts {
            max_attempts: 10,
            charged_attempts,
            ..job()
        };
        match decide(&job, cause, NOW).job {
            JobNext::Queued { delay } => delay.as_secs(),
            other => panic!("not requeued: {other:?}"),
        }
    };
    let fail = Cause::AgentFailed(FailureCode::DownloadFailed);
    assert_eq!([0, 1, 2, 8].map(|n| delay(n, fail)), [5, 10, 20, 300]);
    assert_eq!([0, 1, 2].map(|n| delay(n, Cause::Expired)), [0, 5, 10]);
}

#[test]
fn a_job_that_comes_back_unworked_waits_longer_each_time_whoever_gave_it_back() {
    let no_capacity = Cause::AgentFailed(FailureCode::NoCapacity);
    for cause in [Cause::Returned, Cause::Released, no_capacity] {
        let mut job = job();
        let mut delays = Vec::new();
        for _ in 0..10 {
            let ending = decide(&job, cause, NOW);
            job.returned_offers += i32::from(ending.back.is_some());
            match ending.job {
                JobNext::Queued { delay } => delays.push(delay.as_secs()),
                other => panic!("{cause:?}: {other:?}"),
            }
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300], "{cause:?}");
    }
    // What was nobody's doing does not count.
    for cause in [Cause::Revoked, Cause::Undelivered, Cause::ExpiredInOutage] {
        assert_eq!(decide(&job(), cause, NOW).back, None, "{cause:?}");
    }
}

#[test]
fn a_job_that_nobody_takes_is_undeliverable_in_the_end() {
    let job = JobFacts {
        returned_offers: MAX_RETURNED_OFFERS - 1,
        returned_widely: true,
        ..job()
    };
    let ending = decide(&job, Cause::Returned, NOW);
    assert_eq!(ending.job, JobNext::Failed(FailureCode::Undeliverable));
    // One hot Mac that declines over and over is no verdict on the job.
    let job = JobFacts {
        returned_widely: false,
        ..job
    };
    let ending = decide(&job, Cause::Returned, NOW);
    assert!(matches!(ending.job, JobNext::Queued { .. }));
}
