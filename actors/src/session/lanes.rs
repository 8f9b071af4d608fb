//! The order of what is said about one attempt: one thing at a time, in the order it was said.
//!
//! While an operation runs, later ones wait; progress that waits is folded into one, and is written
//! before whatever comes after it.

use std::collections::{HashMap, VecDeque};

use fencepost_domain::ids::{AttemptId, RequestId};
use fencepost_protocol::LeaseRef;
use fencepost_store::tx::begin_verification::CommitRequest;
use fencepost_store::tx::end_by_agent::AgentEnd;
use fencepost_store::tx::hand_off::HandOff;
use fencepost_store::tx::record_progress::Progress;
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::NewEvent;

/// The most operations that wait about one attempt.
const MAX_PENDING: usize = 16;
/// The most progress that is folded into one. Each is answered, all of them in one turn, and the way
/// out must have room for them (see the gateway's outlet).
const MAX_FOLDED: usize = 16;
/// The most attempts that a session may talk about at once.
const MAX_LANES: usize = 256;

/// Something to be written about an attempt.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    /// The requests that its answer answers: several where progress was folded.
    pub(super) requests: Vec<RequestId>,
    /// The lease that the agent named.
    pub(super) lease: LeaseRef,
    /// What to do.
    pub(super) kind: OperationKind,
}

/// What to do.
#[derive(Debug, Clone)]
pub(super) enum OperationKind {
    /// Record progress; an accept is progress without a phase.
    Progress(Progress),
    /// Write a journal event.
    Event(NewEvent),
    /// Name an artifact.
    Artifact(NewArtifact),
    /// Take a result.
    Commit(CommitRequest),
    /// End the attempt as its agent says.
    End(AgentEnd),
    /// Record what the attempt left on its device.
    HandOff(HandOff),
    /// Return the offer.
    Decline,
    /// Sign another link.
    Grant {
        /// An input's name, or `output`, or (to put) an artifact's name.
        name: String,
        /// `get` or `put`.
        direction: String,
        /// From which part of the output on.
        first_part: Option<u32>,
    },
}

/// The lanes of one session.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The queue behind the operation that runs; an attempt without one has no entry.
    busy: HashMap<AttemptId, VecDeque<Operation>>,
}

/// What to do with an operation that was just said.
#[derive(Debug)]
pub(super) enum Admission {
    /// Run it now.
    Run(Box<Operation>),
    /// It waits its turn.
    Waits,
    /// Too much waits already.
    Full,
}

impl Lanes {
    /// Takes an operation in.
    pub(super) fn admit(&mut self, operation: Operation) -> Admission {
        let lanes = self.busy.len();
        match self.busy.get_mut(&operation.lease.attempt_id) {
            None if lanes >= MAX_LANES => Admission::Full,
            None => {
                self.busy
                    .insert(operation.lease.attempt_id, VecDeque::new());
                Admission::Run(Box::new(operation))
            }
            Some(queue) => match fold(queue, operation) {
                None => Admission::Waits,
                Some(_) if queue.len() >= MAX_PENDING => Admission::Full,
                Some(operation) => {
                    queue.push_back(operation);
                    Admission::Waits
                }
            },
        }
    }

    /// The running operation of an attempt is done; the next one, if any, is to be run now.
    pub(super) fn done(&mut self, attempt: AttemptId) -> Option<Operation> {
        let next = self.busy.get_mut(&attempt)?.pop_front();
        if next.is_none() {
            self.busy.remove(&attempt);
        }
        next
    }
}

/// Folds progress into progress of the same lease that waits last; gives back what cannot be folded.
fn fold(queue: &mut VecDeque<Operation>, mut operation: Operation) -> Option<Operation> {
    let Some(last) = queue.back_mut() else {
        return Some(operation);
    };
    let foldable = last.lease == operation.lease
        && last.requests.len() < MAX_FOLDED
        && matches!(last.kind, OperationKind::Progress(_))
        && matches!(
            operation.kind,
            OperationKind::Progress(Progress { phase: Some(_), .. })
        );
    if !foldable {
        return Some(operation);
    }
    last.requests.append(&mut operation.requests);
    last.kind = operation.kind;
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_domain::attempt::Phase;
    use fencepost_domain::ids::{DeviceId, JobId};

    fn lease() -> LeaseRef {
        LeaseRef {
            job_id: JobId::new(),
            attempt_id: AttemptId::new(),
            lease_epoch: 1,
        }
    }

    fn progress(lease: LeaseRef, percent: f32) -> Operation {
        let progress = Progress {
            claim: lease.claimed_by(DeviceId::new()),
            phase: Some(Phase::Running),
            percent: Some(percent),
            detail: None,
        };
        let requests = vec![RequestId::new()];
        Operation {
            requests,
            lease,
            kind: OperationKind::Progress(progress),
        }
    }

    fn decline(lease: LeaseRef) -> Operation {
        Operation {
            requests: vec![RequestId::new()],
            lease,
            kind: OperationKind::Decline,
        }
    }

    #[test]
    fn progress_that_waits_is_folded_and_comes_before_what_follows_it() {
        let lease = lease();
        let mut lanes = Lanes::default();
        assert!(matches!(
            lanes.admit(progress(lease, 1.0)),
            Admission::Run(_)
        ));
        for percent in [2.0, 3.0, 4.0] {
            assert!(matches!(
                lanes.admit(progress(lease, percent)),
                Admission::Waits
            ));
        }
        assert!(matches!(lanes.admit(decline(lease)), Admission::Waits));
        let folded = lanes.done(lease.attempt_id).unwrap();
        assert_eq!(folded.requests.len(), 3);
        let OperationKind::Progress(written) = folded.kind else {
            panic!("not progress")
        };
        assert_eq!(written.percent, Some(4.0));
        assert!(matches!(
            lanes.done(lease.attempt_id).unwrap().kind,
            OperationKind::Decline
        ));
        assert!(lanes.done(lease.attempt_id).is_none());
    }

    #[test]
    fn progress_of_another_epoch_is_not_folded() {
        let old = lease();
        let new = LeaseRef {
            lease_epoch: 2,
            ..old
        };
        let mut lanes = Lanes::default();
        let _running = lanes.admit(decline(old));
        let _first = lanes.admit(progress(old, 1.0));
        let _second = lanes.admit(progress(new, 1.0));
        assert_eq!(lanes.done(old.attempt_id).unwrap().lease, old);
        assert_eq!(lanes.done(old.attempt_id).unwrap().lease, new);
    }

    #[test]
    fn what_waits_is_bounded() {
        let lease = lease();
        let mut lanes = Lanes::default();
        let _running = lanes.admit(decline(lease));
        for _ in 0..MAX_PENDING {
            assert!(matches!(lanes.admit(decline(lease)), Admission::Waits));
        }
        assert!(matches!(lanes.admit(decline(lease)), Admission::Full));
    }
}
