//! How an attempt ends and what becomes of its job: one decision for every cause.
//!
//! Every path that ends an attempt (a settled commit, a fail, a release, an expiry, a cancel, a
//! revoke) goes through [`decide`], so the budget, the delays and "cancel beats commit" cannot
//! differ between them.

use std::time::Duration;

use time::OffsetDateTime;

use crate::attempt::AttemptStatus;
use crate::failure::FailureCode;
use crate::job::JobStatus;

/// After this many offers that were declined or not answered, a job is undeliverable.
pub const MAX_RETURNED_OFFERS: i32 = 20;
const RETRY_BASE: Duration = Duration::from_secs(5);
const RETURN_BASE: Duration = Duration::from_secs(1);
/// No job is kept from being offered again for longer.
pub const MAX_DELAY: Duration = Duration::from_mins(5);

/// What ended the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The output was verified.
    Verified,
    /// The output's bytes are as declared, but not what the service promises.
    MediaRejected,
    /// The stored bytes are not the declared ones.
    BytesDiffer,
    /// We could not check the output, again and again.
    VerificationTrouble,
    /// The agent reported a failure.
    AgentFailed(FailureCode),
    /// The agent gave the lease back.
    Released,
    /// The agent says that it stopped, or never knew the attempt.
    Stopped,
    /// The lease ran out.
    Expired,
    /// The lease ran out while we were not there to renew it.
    ExpiredInOutage,
    /// An operator declared the clock to be right, which says nothing about when leases end.
    ClockAccepted,
    /// The offer was declined, not answered in time, or its socket went away.
    Returned,
    /// The offer never left the gateway.
    Undelivered,
    /// The agent reconnected without it.
    Forgotten,
    /// The agent resumed it again and again without getting anywhere.
    ResumeBound,
    /// An operator ended it.
    Revoked,
    /// The buyer cancelled and the time to confirm it is over, or nobody had accepted yet.
    CancelForced,
}

/// What the decision needs to know of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFacts {
    /// Where it stands.
    pub status: JobStatus,
    /// Its budget of charged attempts.
    pub max_attempts: i32,
    /// How many are used up.
    pub charged_attempts: i32,
    /// How often it came back unworked: offers, and leases that were given back.
    pub returned_offers: i32,
    /// Whether they came back from at least three devices, or from all that fit if fewer do.
    pub returned_widely: bool,
    /// From then on it is not started again.
    pub admission_deadline: OffsetDateTime,
}

/// What becomes of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobNext {
    /// It has its output.
    Succeeded,
    /// It waits again, not before the delay is over.
    Queued {
        /// How long it is not offered.
        delay: Duration,
    },
    /// It has failed.
    Failed(FailureCode),
    /// It is cancelled.
    Cancelled,
}

impl JobNext {
    /// The job's next status.
    pub fn status(self) -> JobStatus {
        match self {
            Self::Succeeded => JobStatus::Succeeded,
            Self::Queued { .. } => JobStatus::Queued,
            Self::Failed(_) => JobStatus::Failed,
            Self::Cancelled => JobStatus::Cancelled,
        }
    }
}

/// How a job came back without having been worked on: each time it waits longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// An offer was declined or not answered: its device is spared the job for a while.
    Offer,
    /// A lease was given back.
    Lease,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The attempt's terminal status.
    pub attempt: AttemptStatus,
    /// Why it did not succeed.
    pub code: Option<FailureCode>,
    /// Whether it uses up the job's budget.
    pub charged: bool,
    /// Whether the job came back unworked.
    pub back: Option<Back>,
    /// Whether the control plane ended it over the agent's head, which also bumps the epoch.
    pub forced: bool,
    /// What becomes of the job.
    pub job: JobNext,
}

/// Decides how an attempt ends.
pub fn decide(job: &JobFacts, cause: Cause, now: OffsetDateTime) -> Ending {
    if job.status == JobStatus::Cancelling {
        return cancelled(cause);
    }
    match cause {
        Cause::Verified => Ending {
            attempt: AttemptStatus::Succeeded,
            code: None,
            charged: false,
            back: None,
            forced: false,
            job: JobNext::Succeeded,
        },
        Cause::MediaRejected => failed(job, FailureCode::VerificationFailed, now),
        Cause::BytesDiffer => failed(job, FailureCode::UploadFailed, now),
        Cause::VerificationTrouble => failed(job, FailureCode::InternalError, now),
        Cause::AgentFailed(FailureCode::NoCapacity) | Cause::Released | Cause::Undelivered => {
            uncharged(job, FailureCode::NoCapacity, cause, now)
        }
        Cause::AgentFailed(code) => failed(job, code, now),
        // Nothing was cancelled: the agent merely does not know the attempt (any more).
        Cause::Expired | Cause::Forgotten | Cause::ResumeBound | Cause::Stopped => {
            lost(job, cause, now)
        }
        Cause::ExpiredInOutage | Cause::ClockAccepted => {
            uncharged(job, FailureCode::LeaseExpired, cause, now)
        }
        Cause::Returned | Cause::Revoked | Cause::CancelForced => {
            uncharged(job, FailureCode::ProviderOffline, cause, now)
        }
    }
}

/// Whether the control plane acts over the agent's head.
fn is_forced(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Revoked | Cause::CancelForced | Cause::ClockAccepted
    )
}

fn cancelled(cause: Cause) -> Ending {
    Ending {
        attempt: AttemptStatus::Cancelled,
        code: Some(FailureCode::BuyerCancelled),
        charged: false,
        back: None,
        forced: is_forced(cause),
        job: JobNext::Cancelled,
    }
}

fn failed(job: &JobFacts, code: FailureCode, now: OffsetDateTime) -> Ending {
    let charged = code.is_retryable();
    Ending {
        attempt: AttemptStatus::Failed,
        code: Some(code),
        charged,
        back: None,
        forced: false,
        job: if charged {
            after_charge(job, code, doubled(RETRY_BASE, job.charged_attempts), now)
        } else {
            JobNext::Failed(code)
        },
    }
}

fn lost(job: &JobFacts, cause: Cause, now: OffsetDateTime) -> Ending {
    let code = match cause {
        Cause::Expired => FailureCode::LeaseExpired,
        _ => FailureCode::ProviderOffline,
    };
    // The first loss is most likely the device's bad luck: try again at once.
    let delay = match job.charged_attempts {
        0 => Duration::ZERO,
        n => doubled(RETRY_BASE, n - 1),
    };
    Ending {
        attempt: AttemptStatus::Lost,
        code: Some(code),
        charged: true,
        back: None,
        forced: false,
        job: after_charge(job, code, delay, now),
    }
}

fn uncharged(job: &JobFacts, code: FailureCode, cause: Cause, now: OffsetDateTime) -> Ending {
    let back = match cause {
        Cause::Returned => Some(Back::Offer),
        Cause::Released | Cause::AgentFailed(_) => Some(Back::Lease),
        _ => None,
    };
    let returned = back == Some(Back::Offer);
    let delay = match cause {
        // Not the job's doing, nor the device's: at once.
        Cause::Revoked | Cause::CancelForced | Cause::ExpiredInOutage | Cause::ClockAccepted => {
            Duration::ZERO
        }
        _ => doubled(RETURN_BASE, job.returned_offers),
    };
    let next = if now >= job.admission_deadline {
        JobNext::Failed(FailureCode::DeadlineExceeded)
    } else if returned && job.returned_widely && job.returned_offers + 1 >= MAX_RETURNED_OFFERS {
        JobNext::Failed(FailureCode::Undeliverable)
    } else {
        JobNext::Queued { delay }
    };
    Ending {
        attempt: AttemptStatus::Lost,
        code: Some(code),
        charged: false,
        back,
        forced: is_forced(cause),
        job: next,
    }
}

fn after_charge(
    job: &JobFacts,
    code: FailureCode,
    delay: Duration,
    now: OffsetDateTime,
) -> JobNext {
    if job.charged_attempts + 1 >= job.max_attempts {
        JobNext::Failed(code)
    } else if now >= job.admission_deadline {
        JobNext::Failed(FailureCode::DeadlineExceeded)
    } else {
        JobNext::Queued { delay }
    }
}

/// `base × 2ⁿ`, at most five minutes.
fn doubled(base: Duration, n: i32) -> Duration {
    let factor = 2u32.saturating_pow(n.clamp(0, 30).unsigned_abs());
    base.saturating_mul(factor).min(MAX_DELAY)
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod tests;
