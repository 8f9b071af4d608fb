//! How much world is explored, and which mistake is built into it.

use crate::step::Frame;

/// What may happen to messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Every message that could have been sent may arrive at any time, any number of times.
    Open,
    /// Packets in flight, each lost or doubled once.
    Counted {
        /// The most at one time, up to 3.
        in_flight: u8,
    },
}

/// The bounds of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// What may happen to messages.
    pub network: Network,
    /// What agents say.
    pub frames: &'static [Frame],
    /// Devices, up to 2.
    pub devices: u8,
    /// Jobs, up to 2.
    pub jobs: u8,
    /// Attempts over all jobs, up to 4.
    pub attempts: u8,
    /// Budget of charged attempts of each job.
    pub max_attempts: u8,
    /// Sessions of each device.
    pub sessions: u8,
    /// Pick-ups of a verification.
    pub pickups: u8,
    /// Resumes in a row without gain.
    pub resumes: u8,
    /// Jumps of the clock backward, by one tick each.
    pub jumps: u8,
    /// Whether operators revoke, disable and accept a clock.
    pub operators: bool,
    /// A mistake to be found.
    pub fault: Option<Fault>,
}

impl Scope {
    /// Two devices, one job.
    pub fn two_devices(network: Network) -> Self {
        Self {
            network,
            frames: &Frame::ALL,
            devices: 2,
            jobs: 1,
            attempts: 3,
            max_attempts: 2,
            sessions: 2,
            pickups: 2,
            resumes: 2,
            jumps: 1,
            operators: true,
            fault: None,
        }
    }

    /// One device, two jobs.
    pub fn two_jobs(network: Network) -> Self {
        Self {
            devices: 1,
            jobs: 2,
            ..Self::two_devices(network)
        }
    }

    /// The same with a mistake built in.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..self
        }
    }

    /// Whether this mistake is built in.
    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// Mistakes that somebody could make. Each must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The presented epoch is not compared.
    NoEpochCheck,
    /// The presented secret is not compared.
    NoTokenCheck,
    /// The lease's end is not looked at again before COMMIT.
    NoExpiryReCheck,
    /// A sweep ends what it found without looking at it again under the lock.
    SweepWithoutReCheck,
    /// Hello resumes an attempt whose commit was accepted.
    RotateCommitting,
    /// Progress puts off the take-over of a verification.
    ProgressRenewsVerification,
    /// Hello ends an attempt whose commit was accepted, because it is not listed.
    ForgetCommitting,
    /// A decision is made on a job's status as it was before the lock was waited for.
    UnlockedJoin,
    /// The pair that a resume replaced is good for every frame.
    ReplacedPairIsNotDead,
    /// A resume remembers the pair that it overwrote and not the one that was presented.
    RemembersOverwrittenPair,
    /// A resume forgets the replaced pair at once: a lost welcome costs the lease.
    ForgetsReplacedPair,
    /// The replaced pair outlives the first frame with the new one.
    ReplacedPairOutlivesNewOne,
    /// Hello reconciles attempts of its own session too.
    ReconcilesOwnSession,
    /// A hello of an older session is heard.
    HearsOlderSession,
    /// A session that was welcomed is heard again when it repeats its hello.
    HearsHelloTwice,
    /// A verdict settles although another gateway has taken over.
    NoVerificationEpoch,
    /// A clock behind its mark is believed.
    BelievesRegressedClock,
    /// An operator's revoke does not bump the job's epoch counter with the attempt's.
    RevokeKeepsCounter,
    /// Losses are not counted against the budget.
    LossesAreFree,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::NoEpochCheck,
        Self::NoTokenCheck,
        Self::NoExpiryReCheck,
        Self::SweepWithoutReCheck,
        Self::RotateCommitting,
        Self::ProgressRenewsVerification,
        Self::ForgetCommitting,
        Self::UnlockedJoin,
        Self::ReplacedPairIsNotDead,
        Self::RemembersOverwrittenPair,
        Self::ForgetsReplacedPair,
        Self::ReplacedPairOutlivesNewOne,
        Self::ReconcilesOwnSession,
        Self::HearsOlderSession,
        Self::HearsHelloTwice,
        Self::NoVerificationEpoch,
        Self::BelievesRegressedClock,
        Self::RevokeKeepsCounter,
        Self::LossesAreFree,
    ];
}
