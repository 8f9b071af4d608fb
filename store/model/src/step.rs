//! Everything that can happen to the stored world, one transaction each.

use crate::world::{ATTEMPTS, Pair};

/// What an agent says about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frame {
    /// Takes the offer, or renews without gain.
    Accept,
    /// Says that it is uploading, and renews.
    Progress,
    /// Publishes.
    Commit,
    /// Reports a failure that may be tried again.
    Fail,
    /// Reports a failure that may not.
    FailForGood,
    /// Gives the lease back.
    Release,
    /// Has stopped, or never knew the attempt.
    Stopped,
}

impl Frame {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Accept,
        Self::Progress,
        Self::Commit,
        Self::Fail,
        Self::FailForGood,
        Self::Release,
        Self::Stopped,
    ];

    /// Whether the secret must be presented.
    pub fn needs_token(self) -> bool {
        match self {
            Self::Accept | Self::Progress | Self::Stopped => false,
            Self::Commit | Self::Fail | Self::FailForGood | Self::Release => true,
        }
    }
}

/// A device connects and says what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hello {
    /// The device.
    pub device: u8,
    /// The session's number.
    pub session: u8,
    /// The pair that it presents for each attempt; `None` where it lists none.
    pub held: [Option<Pair>; ATTEMPTS],
}

/// What the verifier found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The output is good.
    Good,
    /// The media is not what the service promises.
    MediaRejected,
    /// The bytes are not the declared ones.
    BytesDiffer,
    /// It could not be checked.
    Trouble,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Good,
        Self::MediaRejected,
        Self::BytesDiffer,
        Self::Trouble,
    ];
}

/// One thing that happens. Jobs, devices and attempts are named by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A buyer's submit arrives; the second one under its key is the same job.
    Submit(usize),
    /// A buyer's cancel arrives.
    Cancel(usize),
    /// A job's admission deadline passes.
    Deadline(usize),
    /// The sweeper looks at a waiting job.
    Tend(usize),
    /// A round leases a job to a device.
    Lease {
        /// The job.
        job: usize,
        /// The device.
        device: usize,
    },
    /// A gateway takes an offer back that was not accepted.
    ReturnOffer(usize),
    /// An agent's frame arrives.
    Frame {
        /// The attempt.
        attempt: usize,
        /// What it says.
        frame: Frame,
        /// Under which lease.
        pair: Pair,
        /// Whether the clock ticks between the judgement and COMMIT.
        slow: bool,
    },
    /// A hello arrives.
    Hello {
        /// What it says.
        hello: Hello,
        /// Whether the clock ticks between the judgement and COMMIT.
        slow: bool,
    },
    /// The sweeper looks at an attempt.
    Sweep(usize),
    /// A cancelled attempt's grace is over.
    ForceCancel(usize),
    /// A gateway settles a verdict.
    Settle {
        /// The attempt.
        attempt: usize,
        /// The pick-up under which it was verified.
        pickup: u8,
        /// What was found.
        outcome: Outcome,
    },
    /// A verifier says that it is still at it.
    RenewVerification {
        /// The attempt.
        attempt: usize,
        /// The pick-up that it is at.
        pickup: u8,
    },
    /// A gateway dies between the two transactions of a commit.
    Crash {
        /// The attempt that it verified.
        attempt: usize,
        /// The pick-up that it was at.
        pickup: u8,
    },
    /// An operator revokes an attempt.
    Revoke(usize),
    /// An operator disables a device.
    Disable(usize),
    /// An operator accepts a clock that went back.
    ClockAccept,
    /// Time passes. A clock that jumps forward is many of these in a row.
    Tick,
    /// The clock jumps back.
    JumpBack,
    /// The high-water mark is written.
    Mark,
    /// A transaction reads a job's status and then waits for a lock. Only a planted fault does.
    Look(usize),
}

impl Step {
    /// Whether the clock ticks between the judgement and COMMIT.
    pub fn is_slow(&self) -> bool {
        matches!(
            self,
            Self::Frame { slow: true, .. } | Self::Hello { slow: true, .. }
        )
    }
}
