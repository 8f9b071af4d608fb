//! What the core wants done, and what a job is given and gives back.

use std::fmt;

use fencepost_domain::ids::{AttemptId, JobId};
use fencepost_protocol::{
    AgentEnvelope, InputGrant, LeaseOffer, LeaseRef, Limits, OutputDeclaration, OutputGrant,
    PartLinks,
};
use serde_json::Value;

use crate::clock::Moment;
use crate::closing::Farewell;
use crate::outbox::LeaseRecord;

/// One thing to do. Effects are done in the order they were decided.
#[derive(Debug)]
pub enum Effect {
    /// Put this on disk before anything more is said about the attempt.
    Persist(Box<LeaseRecord>),
    /// Remove it from disk.
    Forget(AttemptId),
    /// Keep this log of a run that failed.
    Keep(AttemptId, String),
    /// Delete what was kept of a run; its end is reported.
    Reap(AttemptId),
    /// Begin to work.
    StartJob {
        /// What to do.
        work: Box<Work>,
        /// When it has to begin to stop.
        deadline: Moment,
    },
    /// A running job now has to begin to stop here.
    MoveDeadline(AttemptId, Moment),
    /// Kill the job and its children, delete its workspace; its end is reported as usual.
    StopJob(AttemptId),
    /// The answer to a job that wants a fresh link.
    GiveLink(AttemptId, LinkAnswer),
    /// Say this.
    Send(Box<AgentEnvelope>),
    /// Drop the socket and dial again at once.
    Reconnect(&'static str),
    /// Worth showing to the operator.
    Notice(String),
    /// Stop for good.
    Exit(Farewell),
}

/// A link that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshLink {
    /// Where to read or write, absolute or relative to the gateway.
    pub url: String,
    /// The object behind it.
    pub object_key: String,
    /// Links to parts, if they were asked for and there are such.
    pub parts: Option<PartLinks>,
}

/// What a job wants a link for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the input, or `output`.
    pub name: String,
    /// `get` or `put`.
    pub direction: &'static str,
    /// From which part of the output on.
    pub first_part: Option<u32>,
}

/// What became of the wish for a fresh link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkAnswer {
    /// Here it is.
    Fresh(FreshLink),
    /// It cannot be asked for, or given, right now: try again.
    NotNow,
    /// There is none.
    Refused,
}

/// What a job needs to know: an offer without its secret, which the job never sees.
#[derive(Debug, Clone)]
pub struct Work {
    /// The job.
    pub job_id: JobId,
    /// The attempt.
    pub attempt_id: AttemptId,
    /// Name of the service.
    pub service: String,
    /// Its parameters, unchecked.
    pub params: Value,
    /// What to fetch.
    pub inputs: Vec<InputGrant>,
    /// Where to put the result.
    pub output: OutputGrant,
    /// What not to exceed.
    pub limits: Limits,
}

impl From<&LeaseOffer> for Work {
    fn from(offer: &LeaseOffer) -> Self {
        let LeaseRef {
            job_id, attempt_id, ..
        } = offer.lease();
        Self {
            job_id,
            attempt_id,
            service: offer.service.clone(),
            params: offer.params.clone(),
            inputs: offer.inputs.clone(),
            output: offer.output.clone(),
            limits: offer.limits,
        }
    }
}

/// How a job ended on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// The output is in place: commit it.
    Uploaded(OutputDeclaration),
    /// It did not work.
    Failed {
        /// A failure code of the contract.
        code: &'static str,
        /// For a person, clean and bounded.
        message: String,
    },
    /// It was told to stop, or saw its lease end.
    Stopped,
}

impl fmt::Display for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uploaded(output) => write!(f, "uploaded {} bytes", output.size_bytes),
            Self::Failed { code, message } => write!(f, "failed ({code}): {message}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
