//! Messages between actors, each with its contract. An actor's messages to itself are in its file.

use actix::{Message, Recipient};
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{AttemptId, DeviceId, SessionNumber};
use fencepost_store::FinalizedAttempt;
use fencepost_store::tx::begin_verification::{CommitRequest, VerificationTicket};
use fencepost_store::tx::cancel_job::Stopping;
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndAnswer};
use fencepost_store::tx::lease_round::{LeasedAttempt, Pull};
use fencepost_store::tx::{Asked, RequestKey};
use fencepost_store::views::SessionView;

/// Session → matcher: a device asks for work. Stands until offers or `NoWork`; a newer one of the
/// same device replaces it. Answered by `OfferLease` or `NoWork`, in their own time.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct PullLease {
    /// What is asked for.
    pub pull: Pull,
    /// Where offers go.
    pub session: Recipient<FromMatcher>,
}

/// Matcher → session. If it cannot be delivered, the matcher returns the lease at once.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub enum FromMatcher {
    /// A lease to offer; committed before it is sent.
    OfferLease(Box<LeasedAttempt>),
    /// The pull found nothing in time.
    NoWork,
}

/// Anyone → matcher: there may be something to match. Losing one costs a period, nothing else.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Nudge;

/// Session → matcher: the socket is gone; forget its pull.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct ForgetPull {
    /// The device.
    pub device: DeviceId,
    /// The session whose pull it was.
    pub session: SessionNumber,
}

/// Session → finalizer: an agent's result. Answered by `CommitProgress` to `reply`, and later, when
/// the attempt has ended, by `AttemptFinalized` to whatever session the device then has.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct CommitAttempt {
    /// The commit.
    pub request: CommitRequest,
    /// The session that asked.
    pub reply: Recipient<FromFinalizer>,
}

/// Session → finalizer: an agent ends its attempt otherwise. Answered by `AgentEnded` to `reply`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct EndAttempt {
    /// The end.
    pub end: AgentEnd,
    /// The session that asked.
    pub reply: Recipient<FromFinalizer>,
}

/// HTTP → finalizer: a result under a request's id; `None` is trouble of ours. Once it is being
/// handled it goes on, whether or not anybody waits.
#[derive(Debug, Message)]
#[rtype(result = "Option<Asked<CommitProgress>>")]
pub struct CommitOutside {
    /// The commit.
    pub request: CommitRequest,
    /// The request.
    pub key: RequestKey,
}

/// HTTP → finalizer: a device ends an attempt under a request's id; `None` is trouble of ours.
#[derive(Debug, Message)]
#[rtype(result = "Option<Asked<AgentEndAnswer>>")]
pub struct EndOutside {
    /// The end.
    pub end: AgentEnd,
    /// The request.
    pub key: RequestKey,
}

/// Session or matcher → finalizer: offers that nobody accepted. What they ended is routed as
/// `AttemptFinalized`; a request is answered by `OffersReturned`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ReturnOffers {
    /// The offers.
    pub offers: Vec<LeaseClaim>,
    /// The session that declined, if it was that.
    pub decline: Option<Recipient<FromFinalizer>>,
    /// Whether the offers left the gateway at all.
    pub delivered: bool,
}

/// Session → finalizer: its socket has closed.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct SessionEnded {
    /// The device.
    pub device: DeviceId,
    /// The session.
    pub session: SessionNumber,
}

/// Sweeper → finalizer: a verification that somebody else left behind.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct TakeOver(pub Vec<VerificationTicket>);

/// Session → finalizer: these are not live any more by the rows; prove it. Answered by
/// `AttemptFinalized` for each that has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ProveEnded(pub Vec<AttemptId>);

/// Finalizer → session: the answer to the operation that runs about this attempt.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub enum FromFinalizer {
    /// The commit was taken, refused, or answered from what is stored.
    CommitProgress {
        /// The attempt.
        attempt: AttemptId,
        /// What happened.
        progress: CommitProgress,
    },
    /// The answer to `EndAttempt`; `None` is trouble of ours.
    AgentEnded {
        /// The attempt.
        attempt: AttemptId,
        /// What happened.
        answer: Option<AgentEndAnswer>,
    },
    /// The answer to a decline.
    OfferReturned {
        /// The attempt that was declined.
        attempt: AttemptId,
        /// Whether it has ended; `false` if it was no offer any more, `None` is trouble of ours.
        ended: Option<bool>,
    },
}

/// How a commit goes on.
#[derive(Debug, Clone)]
pub enum CommitProgress {
    /// It is being verified; `AttemptFinalized` follows.
    Verifying,
    /// It was being verified already.
    StillVerifying,
    /// The stored (or just decided) end.
    Final {
        /// The end.
        end: FinalizedAttempt,
        /// Whether it was stored before.
        replayed: bool,
    },
    /// Refused.
    Refused(fencepost_store::tx::Refusal),
    /// Our trouble: say it again.
    Trouble,
}

/// Finalizer or sweeper → session, through the registry, after the transaction that ended the
/// attempt has committed. The session writes the reply and releases the slot in the same turn.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct AttemptFinalized(pub FinalizedAttempt);

/// Registry → session: stop this attempt (the buyer cancelled).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct StopAttempt(pub Stopping);

/// Sweeper → session: the device as the rows show it now.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct SessionRefresh(pub SessionView);

/// Sweeper → session, through the registry: what the device kept under this handle is to go.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ReapWorkspace(pub String);

/// Registry → session: a newer session of the device is current.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Superseded;

/// Anyone → any actor: how are you? Answered with a small JSON object.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "serde_json::Value")]
pub struct Snapshot;
