//! The first half of a commit: the attempt passes from the agent to the control plane.
//!
//! Locks: jobs, then attempts, by id. Checks: a stored commit first (its writer's repeat is answered
//! from it), then the fence with token, the status and the object's key. Writes: the declared output
//! and its writer, `uploading → committing`, `active → verifying`; or, if the buyer has cancelled,
//! the end of attempt and job. After COMMIT the caller verifies the bytes, with no lock held.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::fencing::{LeaseClaim, Operation, check_identity};
use fencepost_domain::ids::{AttemptId, DeviceId, JobId};
use fencepost_domain::job::JobStatus;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::finish::{Finish, finish};
use super::once::{Asked, Once, Outcome, Repeatable, RequestKey};
use super::{Refusal, content_digest, in_turns};
use crate::artifacts::OpenUpload;
use crate::error::StoreError;
use crate::fence::{WhereFacts, hex_digest, judge};
use crate::finalized::{Ended, FinalizedAttempt};
pub use crate::rows::Declared as DeclaredOutput;
use crate::rows::{Declared, FinalAnswer, Pair, lock_pairs};
use crate::run::{Share, Store, Transaction, Tx};

/// An agent's result.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// Whose lease.
    pub claim: LeaseClaim,
    /// SHA-256 of the token that came with it.
    pub token: CommitTokenDigest,
    /// What it says it uploaded.
    pub output: Declared,
}

/// The answer to a commit.
#[derive(Debug, Clone)]
pub enum CommitAnswer {
    /// Accepted: verify this, then settle.
    Verify(Box<VerificationTicket>),
    /// Accepted earlier, and not settled yet.
    StillVerifying,
    /// The end of the attempt: as it was just decided, or as it is stored.
    Final {
        /// How it ended.
        end: FinalizedAttempt,
        /// Whether it was stored before.
        replayed: bool,
    },
    /// Nothing was changed.
    Refused(Refusal),
}

/// Everything that is needed to verify an output, and the right to settle it.
#[derive(Debug, Clone)]
pub struct VerificationTicket {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptId,
    /// The device that waits for the answer.
    pub device: DeviceId,
    /// Which pick-up this is; settling compares it.
    pub verification_epoch: i64,
    /// The service whose promise is checked.
    pub service: String,
    /// Its parameters.
    pub params: Value,
    /// The longest output.
    pub max_output_seconds: u32,
    /// What was declared.
    pub declared: Declared,
    /// The upload in parts that has to be completed first, if there is one.
    pub parts: Option<OpenUpload>,
}

impl VerificationTicket {
    pub(crate) fn new(pair: &Pair, declared: Declared, verification_epoch: i64) -> Self {
        Self {
            job: pair.job.id,
            attempt: pair.attempt.fence.attempt,
            device: pair.attempt.fence.device,
            verification_epoch,
            service: pair.job.service.clone(),
            params: pair.job.params.clone(),
            max_output_seconds: pair.job.max_output_seconds.unsigned_abs(),
            declared,
            parts: pair.attempt.parts.clone(),
        }
    }
}

impl Store {
    /// Accepts results for verification; one answer for each, in order.
    pub async fn begin_verification(
        &self,
        requests: Vec<CommitRequest>,
    ) -> Result<Vec<CommitAnswer>, StoreError> {
        let drafts = in_turns(
            self,
            requests,
            |one| one.claim.attempt,
            |requests| BeginVerification { requests },
        )
        .await?;
        Ok(drafts.into_iter().map(Draft::after_commit).collect())
    }

    /// The same for one result, under a request's id.
    pub async fn begin_verification_once(
        &self,
        key: RequestKey,
        request: CommitRequest,
    ) -> Result<Asked<CommitAnswer>, StoreError> {
        let inner = BeginVerification {
            requests: vec![request],
        };
        let asked = self.execute(Once { key, inner }).await?;
        Ok(asked.map(|mut drafts| {
            let unknown = Draft::Refused(Refusal::UnknownAttempt);
            drafts.pop().unwrap_or(unknown).after_commit()
        }))
    }
}

struct BeginVerification {
    requests: Vec<CommitRequest>,
}

/// An answer before COMMIT.
enum Draft {
    Verify(Box<VerificationTicket>),
    StillVerifying,
    Ending(AttemptId),
    Ended(Ended, bool),
    Refused(Refusal),
}

impl Draft {
    fn after_commit(self) -> CommitAnswer {
        match self {
            Self::Verify(ticket) => CommitAnswer::Verify(ticket),
            Self::StillVerifying => CommitAnswer::StillVerifying,
            Self::Ended(ended, replayed) => CommitAnswer::Final {
                end: FinalizedAttempt::after_commit(ended),
                replayed,
            },
            Self::Refused(refusal) => CommitAnswer::Refused(refusal),
            // Every `Ending` is replaced by its `Ended` inside the transaction.
            Self::Ending(_) => CommitAnswer::Refused(Refusal::UnknownAttempt),
        }
    }
}

#[derive(Serialize)]
struct Accept {
    #[serde(flatten)]
    facts: WhereFacts,
    final_epoch: i64,
    final_digest: String,
    final_content: String,
    declared_key: String,
    declared_sha256: String,
    declared_size_bytes: i64,
}

impl Transaction for BeginVerification {
    const NAME: &'static str = "begin_verification";
    const SHARE: Share = Share::Reserved;
    type Output = Vec<Draft>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<_> = self.requests.iter().map(|one| one.claim.attempt).collect();
        let locked = lock_pairs(tx, &ids).await?;
        let mut drafts = Vec::with_capacity(self.requests.len());
        let (mut accepts, mut ends) = (Vec::new(), Vec::new());
        for one in &self.requests {
            let Some(pair) = locked.find(one.claim.attempt) else {
                drafts.push(Draft::Refused(Refusal::UnknownAttempt));
                continue;
            };
            let (draft, accept, end) = decide_commit(tx, pair, one, locked.clock());
            drafts.push(draft);
            accepts.extend(accept);
            ends.extend(end);
        }
        write(tx, locked.now, &accepts).await?;
        let ended = finish(tx, locked.now, ends).await?;
        for draft in &mut drafts {
            if let Draft::Ending(attempt) = draft
                && let Some(ended) = ended.iter().find(|ended| ended.attempt == *attempt)
            {
                *draft = Draft::Ended(ended.clone(), false);
            }
        }
        Ok(drafts)
    }
}

impl Repeatable for BeginVerification {
    fn outcome(drafts: &Self::Output) -> Option<Outcome> {
        match drafts.first()? {
            Draft::Refused(refusal) => Outcome::of_refusal(*refusal),
            // The commit itself is on the attempt, with its writer, for as long as that exists.
            _ => Some(Outcome::OnAttempt),
        }
    }

    async fn again(&self, tx: &mut Tx, outcome: Outcome) -> Result<Self::Output, StoreError> {
        match outcome {
            Outcome::OnAttempt => self.run(tx).await,
            refused => Ok(vec![Draft::Refused(refused.refusal())]),
        }
    }
}

type Decision = (Draft, Option<Accept>, Option<Finish>);

fn decide_commit(tx: &Tx, pair: &Pair, one: &CommitRequest, clock: ClockReading) -> Decision {
    let refused = |refusal| (Draft::Refused(refusal), None, None);
    let answer = FinalAnswer {
        operation: "commit".to_owned(),
        epoch: one.claim.epoch,
        digest: one.token,
        content: content(&one.output),
    };
    if let Some(draft) = stored_answer(pair, one, &answer) {
        let mine = tx.rerun && pair.attempt.verification_epoch == 1;
        return match draft {
            // An earlier run of this very commit accepted it: nobody else verifies it yet.
            Draft::StillVerifying if mine => (verify(pair, one), None, None),
            draft => (draft, None, None),
        };
    }
    let fence = &pair.attempt.fence;
    if pair.job.facts.status == JobStatus::Cancelling && fence.status.is_held_by_agent() {
        // A losing commit needs the whole lease, but not a finished upload: it ends the attempt.
        return match judge(
            tx.fence,
            fence,
            &one.claim,
            Some(&one.token),
            Operation::Fail,
            clock,
        ) {
            Err(violation) => refused(Refusal::Fence(violation)),
            Ok(facts) => {
                let ending = decide(&pair.job.facts, Cause::Verified, clock.now);
                let end = Finish::attempt(pair, facts, &ending).written_by(&answer);
                (Draft::Ending(fence.attempt), None, Some(end))
            }
        };
    }
    let facts = match judge(
        tx.fence,
        fence,
        &one.claim,
        Some(&one.token),
        Operation::Commit,
        clock,
    ) {
        Err(violation) => return refused(Refusal::Fence(violation)),
        Ok(facts) => facts,
    };
    if one.output.object_key != pair.attempt.output_key {
        return refused(Refusal::UngrantedObject);
    }
    let accept = Accept {
        facts,
        final_epoch: answer.epoch,
        final_digest: hex_digest(&answer.digest),
        final_content: hex::encode(answer.content),
        declared_key: one.output.object_key.clone(),
        declared_sha256: hex::encode(one.output.sha256),
        declared_size_bytes: one.output.size_bytes,
    };
    (verify(pair, one), Some(accept), None)
}

fn verify(pair: &Pair, one: &CommitRequest) -> Draft {
    let ticket = VerificationTicket::new(pair, one.output.clone(), 1);
    Draft::Verify(Box::new(ticket))
}

/// The answer that is stored for this writer, if there is one. Nothing is written for it.
fn stored_answer(pair: &Pair, one: &CommitRequest, answer: &FinalAnswer) -> Option<Draft> {
    let fence = &pair.attempt.fence;
    if check_identity(fence, &one.claim).is_err() {
        return None;
    }
    if let Some(stored) = &pair.attempt.final_answer {
        let same_writer = stored.epoch == answer.epoch && stored.digest == answer.digest;
        if !same_writer {
            return None;
        }
        let ended = pair.ended();
        if stored.operation != answer.operation
            && fence.status == AttemptStatus::Cancelled
            && let Some(ended) = ended
        {
            // It failed or released what was being cancelled: the verdict is the buyer's word.
            return Some(Draft::Ended(ended, true));
        }
        if stored.operation != answer.operation || stored.content != answer.content {
            return Some(Draft::Refused(Refusal::OtherContent));
        }
        return Some(match ended {
            Some(ended) => Draft::Ended(ended, true),
            None => Draft::StillVerifying,
        });
    }
    // The last writer of an attempt that was cancelled under it learns the verdict.
    let last_digest = match &pair.attempt.hand_off {
        Some(hand_off) => Some(&hand_off.digest),
        None => fence.digest.as_ref(),
    };
    let last_writer = last_digest == Some(&one.token) && one.claim.epoch <= fence.epoch;
    match pair.ended() {
        Some(ended) if last_writer && fence.status == AttemptStatus::Cancelled => {
            Some(Draft::Ended(ended, true))
        }
        Some(_) | None => None,
    }
}

fn content(output: &Declared) -> Vec<u8> {
    let size = output.size_bytes.to_be_bytes();
    content_digest(
        Operation::Commit,
        &[&output.sha256, &size, output.object_key.as_bytes()],
    )
}

async fn write(tx: &mut Tx, now: OffsetDateTime, accepts: &[Accept]) -> Result<(), StoreError> {
    if accepts.is_empty() {
        return Ok(());
    }
    let input = serde_json::to_value(accepts)
        .map_err(|error| StoreError::inconsistent("attempts", error.to_string()))?;
    let until = now + tx.settings.verification_takeover.signed();
    let written = sqlx::query!(
        r#"-- begin_verification: write
        with input as materialized (
            select * from jsonb_to_recordset($1) as e(
                attempt_id uuid, job_id uuid, device_id uuid, epoch bigint, digest text,
                "from" text[], must_be_live boolean, final_epoch bigint, final_digest text,
                final_content text, declared_key text, declared_sha256 text,
                declared_size_bytes bigint)
        ), committing as (
            update attempts a set
                status = 'committing', percent = null,
                replaced_epoch = null, replaced_digest = null, unpresented_claim = null,
                final_operation = 'commit',
                final_epoch = e.final_epoch, final_digest = decode(e.final_digest, 'hex'),
                final_content = decode(e.final_content, 'hex'), declared_key = e.declared_key,
                declared_sha256 = decode(e.declared_sha256, 'hex'),
                declared_size_bytes = e.declared_size_bytes, verification_epoch = 1,
                verification_started_at = $2, verify_until = $3
            from input e
            where a.id = e.attempt_id and a.ended_at is null
                and a.job_id = e.job_id and a.device_id = e.device_id and a.lease_epoch = e.epoch
                and (e.digest is null or a.token_digest = decode(e.digest, 'hex'))
                and a.status::text = any(e."from")
                and (not e.must_be_live or a.lease_expires_at > $2)
            returning a.job_id
        ), verifying as (
            update jobs j set status = 'verifying' from committing
            where j.id = committing.job_id and j.status = 'active'
            returning 1
        )
        select (select count(*) from committing) as "attempts!",
            (select count(*) from verifying) as "jobs!""#,
        input,
        now,
        until
    )
    .fetch_one(&mut **tx)
    .await?;
    let expected = i64::try_from(accepts.len()).unwrap_or(i64::MAX);
    if (written.attempts, written.jobs) == (expected, expected) {
        Ok(())
    } else {
        let what = format!(
            "commit: judged {expected}, wrote {} attempts and {} jobs",
            written.attempts, written.jobs
        );
        Err(StoreError::inconsistent("attempts", what))
    }
}
