//! What is asked of jobs and leases.

use fencepost_domain::ids::{EventId, SessionNumber};
use fencepost_domain::verification::Verdict;
use fencepost_store::StoreError;
use fencepost_store::tx::begin_verification::{CommitAnswer, CommitRequest, DeclaredOutput};
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndAnswer, AgentEndKind};
use fencepost_store::tx::lease_round::{Cursor, Pull};
use fencepost_store::tx::settle_commit::{Settle, Settled};
use fencepost_store::tx::submit_job::{IdempotencyKey, Submitted};
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal, NewEvent};
use serde_json::json;
use uuid::Uuid;

use crate::call::{Answer, Claim, End, Key, Outcome, Request};
use crate::names::Learned;

use super::{Driver, length, only};

impl Driver<'_> {
    pub(super) async fn submit(&self, request: &Request) -> Result<Answer, StoreError> {
        let mut job = self.site.new_job(self.names.job(request.slot));
        job.max_attempts = request.budget;
        job.deadline = length(request.deadline);
        job.max_run = length(request.max_run);
        job.idempotency = request.key.map(|(key, means)| IdempotencyKey {
            key: format!("key {key}"),
            fingerprint: [means; 32],
        });
        Ok(match self.store.submit_job(job).await? {
            Submitted::Queued { .. } => Answer::Submitted,
            Submitted::Replayed { job } => {
                Answer::SameJob(self.names.slot_of(job.0).unwrap_or(usize::MAX))
            }
            Submitted::KeyReused => Answer::KeyReused,
            other => panic!("the org has credit and a file: {other:?}"),
        })
    }

    pub(super) async fn round(
        &self,
        device: usize,
        session: i64,
        slots: u32,
        learned: &mut Learned,
    ) -> Result<Answer, StoreError> {
        let pull = Pull {
            device: self.names.devices[device].0,
            session: SessionNumber(session),
            slots_free: slots,
        };
        let round = self
            .store
            .lease_round(vec![pull], Cursor::default())
            .await?;
        if let Some(by) = round.clock_regressed_by {
            return Ok(Answer::Regressed(by));
        }
        let mut leased = Vec::new();
        for lease in round.leased {
            let slot = self.names.slot_of(lease.job.0).unwrap_or(usize::MAX);
            let at = (slot, lease.attempt_number);
            let place = self.names.device_place(lease.device.0);
            let place = place.unwrap_or(usize::MAX);
            leased.push((at, place));
            learned.tokens.push((at, lease.epoch, lease.token.digest()));
            let known = (at, lease.attempt, place, lease.output_key);
            learned.leased.push(known);
        }
        leased.sort_unstable();
        Ok(Answer::Leased(leased))
    }

    pub(super) async fn commit(&self, claim: &Claim, content: u8) -> Result<Answer, StoreError> {
        let request = CommitRequest {
            claim: self.names.claim(claim),
            token: self.names.token(claim.at, claim.pair.token),
            output: DeclaredOutput {
                object_key: self.names.output_key(claim.at).to_owned(),
                sha256: [content; 32],
                size_bytes: 1_000,
            },
        };
        let mut answers = self.store.begin_verification(vec![request]).await?;
        Ok(match only(&mut answers) {
            CommitAnswer::Verify(ticket) => Answer::Verify(ticket.verification_epoch),
            CommitAnswer::StillVerifying => Answer::StillVerifying,
            CommitAnswer::Final { end, replayed } => self.as_final(&end, replayed),
            CommitAnswer::Refused(refusal) => Answer::Refused(refusal),
        })
    }

    pub(super) async fn end(&self, claim: &Claim, end: End) -> Result<Answer, StoreError> {
        let token = self.names.token(claim.at, claim.pair.token);
        let kind = match end {
            End::Fail(code) => AgentEndKind::Fail {
                token,
                code,
                message: "it did not work".to_owned(),
            },
            End::Release => AgentEndKind::Release {
                token,
                reason: "the owner is back".to_owned(),
            },
            End::Stopped => AgentEndKind::Stopped,
        };
        let claim = self.names.claim(claim);
        let mut answers = self
            .store
            .end_by_agent(vec![AgentEnd { claim, kind }])
            .await?;
        Ok(match only(&mut answers) {
            AgentEndAnswer::Final { end, replayed } => self.as_final(&end, replayed),
            AgentEndAnswer::Nothing => Answer::Done,
            // Somebody else's stored answer is a matter of a lease that is not live.
            AgentEndAnswer::Refused(refusal) => Answer::Refused(refusal),
        })
    }

    pub(super) async fn settle(
        &self,
        at: Key,
        pickup: i64,
        outcome: Outcome,
    ) -> Result<Answer, StoreError> {
        let reason = || "a test".to_owned();
        let attempt = self.names.attempt(at);
        let copy = fencepost_domain::artifact_key::verified_copy;
        let settle = Settle {
            attempt,
            verification_epoch: pickup,
            copy_key: copy(self.names.job(at.0), attempt, pickup),
            verdict: match outcome {
                Outcome::Good => Verdict::Good {
                    duration_seconds: 30.0,
                },
                Outcome::MediaRejected => Verdict::MediaRejected { reason: reason() },
                Outcome::BytesDiffer => Verdict::BytesDiffer { reason: reason() },
                Outcome::Trouble => Verdict::Trouble { reason: reason() },
            },
        };
        let mut settled = self.store.settle_commit(vec![settle]).await?;
        Ok(match only(&mut settled) {
            Settled::Final(end) => self.as_final(&end, false),
            Settled::Later => Answer::Later,
            Settled::TakenOver => Answer::TakenOver,
        })
    }

    pub(super) async fn event(
        &self,
        claim: &Claim,
        id: u8,
        content: u8,
    ) -> Result<Answer, StoreError> {
        let event = NewEvent {
            claim: self.names.claim(claim),
            token: self.names.token(claim.at, claim.pair.token),
            event_id: EventId(Uuid::from_u128(1 + u128::from(id))),
            seq: i64::from(id),
            kind: "encoder.exit".to_owned(),
            payload: json!(content),
        };
        let mut answers = self.store.write_events(vec![event]).await?;
        Ok(match only(&mut answers) {
            JournalAnswer::Stored {
                replayed,
                lease_live,
                ..
            } => Answer::Written {
                replayed,
                lease_live,
            },
            JournalAnswer::Refused(JournalRefusal::Lease(refusal)) => Answer::Refused(refusal),
            JournalAnswer::Refused(JournalRefusal::Content) => Answer::Conflict,
            JournalAnswer::Refused(JournalRefusal::Invalid(problem)) => {
                panic!("the event is well-formed: {problem}")
            }
        })
    }
}
