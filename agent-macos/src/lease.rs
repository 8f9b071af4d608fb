//! The right to work on one attempt, as one thing that cannot be copied.

use fencepost_domain::commit_token::CommitToken;
use fencepost_protocol::{HeldLease, LeaseRef};

use crate::clock::Moment;

/// A lease that this agent holds: which, its secret, and until when by our own clock. Not `Clone`:
/// two owners could disagree about the epoch. Dropping it tells nobody anything.
#[derive(Debug)]
pub struct Lease {
    reference: LeaseRef,
    token: CommitToken,
    deadline: Moment,
    /// Until then the authority's clock is known to stand still, and the deadline has moved for it.
    still_until: Moment,
}

impl Lease {
    /// A lease as it was offered, or as it was read back after a restart.
    pub fn new(reference: LeaseRef, token: CommitToken, deadline: Moment) -> Self {
        Self {
            reference,
            token,
            deadline,
            still_until: Moment::from_millis(0),
        }
    }

    /// Job, attempt and epoch.
    pub fn reference(&self) -> LeaseRef {
        self.reference
    }

    /// The secret, for the frames and the file that must carry it.
    pub fn token(&self) -> &CommitToken {
        &self.token
    }

    /// The end, by the clock that runs during sleep.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Whether work may go on. At the deadline itself the lease is dead.
    pub fn is_live(&self, now: Moment) -> bool {
        now < self.deadline
    }

    /// A request sent at `sent` was confirmed with this much left. Counted from the sending: the
    /// authority's clock cannot have been earlier than that. The newest answer counts, also where
    /// it is the shorter one: a lease may be shorter than the time there was to accept it.
    pub fn confirm(&mut self, sent: Moment, remaining_ms: u64) {
        self.deadline = sent.after_millis(remaining_ms);
    }

    /// To a request sent at `sent` the authority said that its clock is this much behind, and nothing
    /// expires meanwhile. Said again, it is the same time that stands still, and counts once.
    pub fn postpone(&mut self, sent: Moment, by_ms: u64) {
        let until = sent.after_millis(by_ms);
        let fresh = until.millis_since(self.still_until.max(sent));
        self.deadline = self.deadline.after_millis(fresh);
        self.still_until = self.still_until.max(until);
    }

    /// The lease goes on under a new epoch and secret; the old secret is dead.
    pub fn rotate(&mut self, epoch: i64, token: CommitToken, deadline: Moment) {
        self.reference.lease_epoch = epoch;
        self.token = token;
        self.deadline = deadline;
    }

    /// How `hello` presents it.
    pub fn presented(&self) -> HeldLease {
        HeldLease {
            lease: self.reference,
            commit_token: self.token.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_domain::commit_token::TOKEN_BYTES;
    use fencepost_domain::ids::{AttemptId, JobId};

    fn lease(deadline: u64) -> Lease {
        let reference = LeaseRef {
            job_id: JobId::new(),
            attempt_id: AttemptId::new(),
            lease_epoch: 1,
        };
        let token = CommitToken::from_entropy([1; TOKEN_BYTES]);
        Lease::new(reference, token, Moment::from_millis(deadline))
    }

    #[test]
    fn a_lease_is_dead_at_its_deadline() {
        let lease = lease(100);
        assert!(lease.is_live(Moment::from_millis(99)));
        assert!(!lease.is_live(Moment::from_millis(100)));
    }

    #[test]
    fn a_confirmation_counts_from_the_sending_and_the_newest_one_counts() {
        let mut lease = lease(100);
        lease.confirm(Moment::from_millis(50), 60);
        assert_eq!(lease.deadline(), Moment::from_millis(110));
        lease.confirm(Moment::from_millis(60), 30);
        assert_eq!(lease.deadline(), Moment::from_millis(90));
    }

    #[test]
    fn time_that_stands_still_moves_the_deadline_once_however_often_it_is_said() {
        let mut lease = lease(100);
        lease.postpone(Moment::from_millis(10), 70);
        assert_eq!(lease.deadline(), Moment::from_millis(170));
        // Asked again, 30 and 65 later: it is still the same clock that catches up at 80.
        lease.postpone(Moment::from_millis(40), 40);
        lease.postpone(Moment::from_millis(75), 5);
        assert_eq!(lease.deadline(), Moment::from_millis(170));
        // It has gone back once more.
        lease.postpone(Moment::from_millis(79), 11);
        assert_eq!(lease.deadline(), Moment::from_millis(180));
        lease.postpone(Moment::from_millis(200), 5);
        assert_eq!(lease.deadline(), Moment::from_millis(185));
    }

    #[test]
    fn a_rotation_replaces_all_of_epoch_secret_and_deadline() {
        let mut lease = lease(100);
        let token = CommitToken::from_entropy([2; TOKEN_BYTES]);
        lease.rotate(2, token.clone(), Moment::from_millis(70));
        assert_eq!(lease.reference().lease_epoch, 2);
        assert_eq!(lease.deadline(), Moment::from_millis(70));
        assert!(lease.presented().commit_token == token && *lease.token() == token);
    }
}
