//! What an agent says about one attempt.

use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::commit_token::{CommitTokenDigest, TOKEN_BYTES};
use fencepost_domain::ending::Cause;
use fencepost_domain::fencing::{AttemptFence, FenceViolation, LeaseClaim, Operation, check};
use fencepost_domain::ids::{AttemptId, DeviceId, JobId};
use fencepost_domain::job::JobStatus;
use fencepost_store::tx::Refusal;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{AttemptRow, Reference, Said, TAKE_OVER, TTL};
use crate::call::{Answer, Claim, End};

impl Reference {
    /// The fence, by the domain's function.
    pub(super) fn fenced(
        &self,
        row: &AttemptRow,
        claim: &Claim,
        operation: Operation,
    ) -> Result<(), FenceViolation> {
        let device = |number: usize| DeviceId(Uuid::from_u128(number as u128));
        let stored = AttemptFence {
            device: device(row.device),
            job: JobId(Uuid::from_u128(claim.at.0 as u128)),
            attempt: AttemptId(Uuid::from_u128(0)),
            epoch: row.lease.epoch,
            digest: Some(digest(row.lease.token)),
            status: row.status,
            expires_at: row.expires_at,
        };
        let presented = LeaseClaim {
            device: device(row.device + usize::from(claim.stranger)),
            job: stored.job,
            attempt: stored.attempt,
            epoch: claim.pair.epoch,
        };
        let token = operation.needs_token().then(|| digest(claim.pair.token));
        check(&stored, &presented, token.as_ref(), operation, self.clock())
    }

    fn row(&self, claim: &Claim) -> AttemptRow {
        self.attempts[&claim.at].row.clone()
    }

    pub(super) fn progress(
        &mut self,
        claim: &Claim,
        phase: Option<Phase>,
        percent: Option<u8>,
    ) -> Answer {
        let row = self.row(claim);
        if row.status == AttemptStatus::Committing {
            let violation = match () {
                () if claim.stranger => FenceViolation::ForeignDevice,
                () if claim.pair.epoch != row.lease.epoch => FenceViolation::StaleEpoch,
                () if row.must_stop => return Answer::Stop,
                () => return Answer::Verifying,
            };
            return refused(violation);
        }
        match self.fenced(&row, claim, Operation::Progress) {
            // A cancel does not wait for the clock.
            Ok(()) | Err(FenceViolation::ClockRegressed { .. }) if row.must_stop => {
                return Answer::Stop;
            }
            Ok(()) => {}
            Err(violation) => return refused(violation),
        }
        let now = self.now;
        let renewed = (now + TTL).min(row.run_deadline);
        let expires_at = renewed.max(lasting(&row, now));
        let attempt = &mut self.attempt(claim.at).row;
        let said = phase
            .map_or(row.status, AttemptStatus::from)
            .max(row.status);
        let gained = said != row.status
            || percent.is_some_and(|said| row.percent.is_none_or(|known| said > known));
        if gained {
            attempt.resumes = 0;
        }
        attempt.percent = if said == row.status {
            percent.or(row.percent)
        } else {
            percent
        };
        attempt.status = said;
        attempt.is_accepted = true;
        attempt.replaced = None;
        attempt.expires_at = Some(expires_at);
        Answer::Renewed(expires_at)
    }

    /// Nothing new begins for a job that is being cancelled.
    pub(super) fn grant(&mut self, claim: &Claim) -> Answer {
        let is_active = self.jobs[&claim.at.0].row.status == JobStatus::Active;
        match self.fenced(&self.row(claim), claim, Operation::Grant) {
            Ok(()) if !is_active => Answer::Refused(Refusal::JobNotActive),
            Ok(()) => {
                self.attempt(claim.at).row.replaced = None;
                Answer::Done
            }
            Err(violation) => refused(violation),
        }
    }

    /// What is stored answers its writer; nobody else.
    fn stored(&self, claim: &Claim, said: Said) -> Option<Answer> {
        let attempt = &self.attempts[&claim.at];
        let (_, writer) = attempt.row.writer?;
        if claim.stranger || writer != claim.pair {
            return None;
        }
        // What was failed or given back while it was being cancelled: the verdict is the buyer's word.
        let is_other = attempt.said.map(Said::operation) != Some(said.operation());
        let is_commit = matches!(said, Said::Commit(_));
        if is_commit && is_other && attempt.row.status == AttemptStatus::Cancelled {
            return Some(self.as_final(claim.at, true));
        }
        Some(match attempt.row.status.is_live() {
            _ if attempt.said != Some(said) => Answer::Refused(Refusal::OtherContent),
            true => Answer::StillVerifying,
            false => self.as_final(claim.at, true),
        })
    }

    pub(super) fn commit(&mut self, claim: &Claim, content: u8) -> Answer {
        let said = Said::Commit(content);
        if let Some(answer) = self.stored(claim, said) {
            return answer;
        }
        let row = self.row(claim);
        // The last writer of an attempt that was cancelled under it learns the verdict.
        let is_last = row.lease.token == claim.pair.token && claim.pair.epoch <= row.lease.epoch;
        let is_told = row.status == AttemptStatus::Cancelled && row.writer.is_none();
        if is_told && is_last && !claim.stranger {
            return self.as_final(claim.at, true);
        }
        let is_losing = self.jobs[&claim.at.0].row.status == JobStatus::Cancelling
            && row.status.is_held_by_agent();
        let operation = if is_losing {
            Operation::Fail
        } else {
            Operation::Commit
        };
        if let Err(violation) = self.fenced(&row, claim, operation) {
            return refused(violation);
        }
        if is_losing {
            return self.end_as_said(claim, said, Cause::Verified);
        }
        let now = self.now;
        self.write(claim, said);
        let row = &mut self.attempt(claim.at).row;
        row.status = AttemptStatus::Committing;
        row.percent = None;
        row.replaced = None;
        row.pickup = 1;
        row.verify_since = Some(now);
        row.verify_until = Some(now + TAKE_OVER);
        self.job(claim.at.0).row.status = JobStatus::Verifying;
        Answer::Verify(1)
    }

    fn write(&mut self, claim: &Claim, said: Said) {
        let attempt = self.attempt(claim.at);
        attempt.said = Some(said);
        attempt.row.writer = Some((said.operation(), claim.pair));
    }

    fn end_as_said(&mut self, claim: &Claim, said: Said, cause: Cause) -> Answer {
        self.end(claim.at, cause);
        self.write(claim, said);
        self.as_final(claim.at, false)
    }

    pub(super) fn end_by_agent(&mut self, claim: &Claim, end: End) -> Answer {
        let (said, operation, cause) = match end {
            End::Stopped => return self.stopped(claim),
            End::Fail(code) => (Said::Fail(code), Operation::Fail, Cause::AgentFailed(code)),
            End::Release => (Said::Release, Operation::Release, Cause::Released),
        };
        if let Some(answer) = self.stored(claim, said) {
            return answer;
        }
        match self.fenced(&self.row(claim), claim, operation) {
            Ok(()) => self.end_as_said(claim, said, cause),
            Err(violation) => refused(violation),
        }
    }

    fn stopped(&mut self, claim: &Claim) -> Answer {
        let row = self.row(claim);
        if claim.stranger {
            return refused(FenceViolation::ForeignDevice);
        }
        if row.lease.epoch != claim.pair.epoch {
            return refused(FenceViolation::StaleEpoch);
        }
        if !row.status.is_live() {
            return self.as_final(claim.at, true);
        }
        if self.jobs[&claim.at.0].row.status != JobStatus::Cancelling {
            return Answer::Done;
        }
        self.end(claim.at, Cause::Stopped);
        self.as_final(claim.at, false)
    }
}

fn refused(violation: FenceViolation) -> Answer {
    Answer::Refused(Refusal::Fence(violation))
}

/// Below which no renewal goes; the end of a lease that is yet to begin means nothing.
pub(super) fn lasting(row: &AttemptRow, now: OffsetDateTime) -> OffsetDateTime {
    let given = row.expires_at.filter(|_| row.leased_at <= now);
    given.unwrap_or(now)
}

fn digest(token: i64) -> CommitTokenDigest {
    let mut bytes = [0; TOKEN_BYTES];
    bytes[..8].copy_from_slice(&token.to_be_bytes());
    CommitToken::from_entropy(bytes).digest()
}
