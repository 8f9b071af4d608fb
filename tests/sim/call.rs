//! One call of the store, and what it answers, with everything named by its place.

use std::time::Duration;

use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::job::JobStatus;
use fencepost_store::tx::Refusal;
use time::OffsetDateTime;

/// An attempt: its job's place and its number.
pub(crate) type Key = (usize, i32);

/// A lease epoch with its secret. Secrets are named by the epoch that they were minted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) epoch: i64,
    pub(crate) token: i64,
}

/// A secret that nobody was given.
pub(crate) const NOBODYS: i64 = -1;

/// A secret that the store made up and told nobody.
pub(crate) const UNTOLD: i64 = 0;

impl Pair {
    pub(crate) fn minted(epoch: i64) -> Self {
        let token = epoch;
        Self { epoch, token }
    }
}

/// What an agent presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) at: Key,
    pub(crate) pair: Pair,
    /// It comes from another device than the attempt's.
    pub(crate) stranger: bool,
}

/// How an agent ends an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Fail(FailureCode),
    Release,
    Stopped,
}

/// What a verifier found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    MediaRejected,
    BytesDiffer,
    Trouble,
}

/// A buyer's request for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// The place that it gets if it is a new job.
    pub(crate) slot: usize,
    /// Its idempotency key and what it means.
    pub(crate) key: Option<(u8, u8)>,
    pub(crate) budget: i32,
    pub(crate) deadline: Duration,
    pub(crate) max_run: Duration,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call {
    Submit(Request),
    Round {
        device: usize,
        session: i64,
        slots: u32,
    },
    Progress {
        claim: Claim,
        phase: Option<Phase>,
        percent: Option<u8>,
    },
    Commit {
        claim: Claim,
        content: u8,
    },
    End {
        claim: Claim,
        end: End,
    },
    TakeBack {
        claim: Claim,
        delivered: bool,
    },
    Settle {
        at: Key,
        pickup: i64,
        outcome: Outcome,
    },
    RenewVerification {
        at: Key,
        pickup: i64,
    },
    Cancel(usize),
    Hello {
        device: usize,
        session: i64,
        process: u8,
        held: Vec<(Key, Pair)>,
    },
    Close {
        device: usize,
        session: i64,
    },
    Sweep,
    Tend,
    Advance(Duration),
    GoBack(Duration),
    Mark,
    AcceptClock,
    PullBack,
    Disable(usize),
    Enable(usize),
    Repair {
        device: usize,
        other_owner: bool,
    },
    Revoke(Key),
    Event {
        claim: Claim,
        id: u8,
        content: u8,
    },
    Grant(Claim),
}

/// How an attempt ended, as an answer says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ended {
    pub(crate) at: Key,
    pub(crate) status: AttemptStatus,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Done,
    No,
    Submitted,
    SameJob(usize),
    KeyReused,
    Regressed(Duration),
    Leased(Vec<(Key, usize)>),
    Renewed(OffsetDateTime),
    Verifying,
    Stop,
    Refused(Refusal),
    Verify(i64),
    StillVerifying,
    Final {
        ended: Ended,
        job: JobStatus,
        code: Option<FailureCode>,
        replayed: bool,
    },
    Ended(Vec<Ended>),
    Cancelled {
        status: JobStatus,
        changed: bool,
        ended: bool,
        stopping: bool,
    },
    Welcome {
        resumed: Vec<(Key, i64, Duration)>,
        recorded: Vec<(Key, AttemptStatus)>,
        lost: Vec<Key>,
        ended: Vec<Ended>,
    },
    Superseded,
    InTwoPlaces(Vec<Ended>),
    Later,
    TakenOver,
    Swept {
        ended: Vec<Ended>,
        verify: Vec<(Key, i64)>,
    },
    Tended {
        woken: usize,
        overdue: usize,
    },
    Written {
        replayed: bool,
        lease_live: bool,
    },
    /// The journal's conflict of content.
    Conflict,
}

impl Answer {
    /// What can be compared after a COMMIT whose answer was lost: whether it was the first run that
    /// did it, and what others are told of it, may have been lost with the answer.
    pub(crate) fn after_a_cut(self) -> Self {
        match self {
            Self::Final {
                ended, job, code, ..
            } => Self::Final {
                ended,
                job,
                code,
                replayed: false,
            },
            Self::Written { lease_live, .. } => Self::Written {
                replayed: false,
                lease_live,
            },
            Self::Welcome {
                resumed,
                recorded,
                lost,
                ..
            } => Self::Welcome {
                resumed,
                recorded,
                lost,
                ended: Vec::new(),
            },
            // The agent that asks again hears either, and neither is settled by it.
            Self::Verify(_) | Self::StillVerifying => Self::StillVerifying,
            Self::Cancelled { status, .. } => Self::Cancelled {
                status,
                changed: true,
                ended: false,
                stopping: false,
            },
            Self::Swept { .. } | Self::Tended { .. } | Self::Ended(_) => Self::Done,
            Self::InTwoPlaces(_) => Self::No,
            other => other,
        }
    }
}
