//! The agent ends its attempt: `fail`, `release`, or `stopped` after a cancel.
//!
//! Locks: jobs, then attempts, by id, then ledger accounts. Checks: a stored fail or release first
//! (its writer's repeat is answered from it), then the fence (with token but for `stopped`, which
//! acts on cancelling jobs alone). The agent reports; the domain decides what becomes of the job.

use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::{FenceViolation, LeaseClaim, Operation, check_identity};
use fencepost_domain::ids::RequestId;
use fencepost_domain::job::JobStatus;
use time::OffsetDateTime;

use super::finish::{Finish, finish};
use super::once::{Asked, Once, Outcome, Repeatable, RequestKey};
use super::{Refusal, content_digest, in_turns};
use crate::error::StoreError;
use crate::fence::{FenceMode, judge, judge_without_time};
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{FinalAnswer, Pair, lock_pairs};
use crate::run::{Share, Store, Transaction, Tx};

/// How an agent ends an attempt.
#[derive(Debug, Clone)]
pub struct AgentEnd {
    /// Whose lease.
    pub claim: LeaseClaim,
    /// What it says.
    pub kind: AgentEndKind,
}

/// The ways.
#[derive(Debug, Clone)]
pub enum AgentEndKind {
    /// It could not do it.
    Fail {
        /// SHA-256 of the token that came with it.
        token: CommitTokenDigest,
        /// Why.
        code: FailureCode,
        /// Why, for people.
        message: String,
    },
    /// It gives the lease back.
    Release {
        /// SHA-256 of the token that came with it.
        token: CommitTokenDigest,
        /// Why, for the log.
        reason: String,
    },
    /// It gives back a claim whose secret never arrived, and so was never presented.
    GiveBack {
        /// The claim's request id, instead of the secret.
        claim_request: RequestId,
        /// Why, for the log.
        reason: String,
    },
    /// It has stopped, or never knew the attempt.
    Stopped,
}

/// The answer to an agent's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEndAnswer {
    /// The attempt has ended.
    Final {
        /// How.
        end: FinalizedAttempt,
        /// Whether it had before.
        replayed: bool,
    },
    /// A `stopped` about an attempt that nobody cancelled: nothing was changed.
    Nothing,
    /// Nothing was changed.
    Refused(Refusal),
}

impl Store {
    /// Ends attempts as their agents say; one answer for each, in order.
    pub async fn end_by_agent(
        &self,
        ends: Vec<AgentEnd>,
    ) -> Result<Vec<AgentEndAnswer>, StoreError> {
        let attempt = |one: &AgentEnd| one.claim.attempt;
        let drafts = in_turns(self, ends, attempt, |ends| EndByAgent { ends }).await?;
        Ok(drafts.into_iter().map(Draft::after_commit).collect())
    }

    /// The same for one, under a request's id.
    pub async fn end_by_agent_once(
        &self,
        key: RequestKey,
        end: AgentEnd,
    ) -> Result<Asked<AgentEndAnswer>, StoreError> {
        let inner = EndByAgent { ends: vec![end] };
        let asked = self.execute(Once { key, inner }).await?;
        Ok(asked.map(|mut drafts| drafts.pop().unwrap_or(Draft::Nothing).after_commit()))
    }
}

struct EndByAgent {
    ends: Vec<AgentEnd>,
}

enum Draft {
    Ending,
    Ended(Ended, bool),
    Nothing,
    Refused(Refusal),
}

impl Draft {
    fn after_commit(self) -> AgentEndAnswer {
        match self {
            Self::Ended(ended, replayed) => AgentEndAnswer::Final {
                end: FinalizedAttempt::after_commit(ended),
                replayed,
            },
            Self::Refused(refusal) => AgentEndAnswer::Refused(refusal),
            // `Ending` is replaced by its `Ended` inside the transaction.
            Self::Nothing | Self::Ending => AgentEndAnswer::Nothing,
        }
    }
}

impl Transaction for EndByAgent {
    const NAME: &'static str = "end_by_agent";
    const SHARE: Share = Share::Reserved;
    type Output = Vec<Draft>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<_> = self.ends.iter().map(|one| one.claim.attempt).collect();
        let locked = lock_pairs(tx, &ids).await?;
        let mut drafts = Vec::with_capacity(self.ends.len());
        let mut finishes = Vec::new();
        for one in &self.ends {
            let Some(pair) = locked.find(one.claim.attempt) else {
                drafts.push(Draft::Refused(Refusal::UnknownAttempt));
                continue;
            };
            match decide_end(tx, pair, one, locked.clock()) {
                Ok(Decision::Finish(end)) => {
                    finishes.push(*end);
                    drafts.push(Draft::Ending);
                }
                Ok(Decision::Answer(draft)) => drafts.push(draft),
                Err(refusal) => drafts.push(Draft::Refused(refusal)),
            }
        }
        let ended = finish(tx, locked.now, finishes).await?;
        for (draft, one) in drafts.iter_mut().zip(&self.ends) {
            if matches!(draft, Draft::Ending)
                && let Some(ended) = ended
                    .iter()
                    .find(|ended| ended.attempt == one.claim.attempt)
            {
                *draft = Draft::Ended(ended.clone(), false);
            }
        }
        Ok(drafts)
    }
}

impl Repeatable for EndByAgent {
    fn outcome(drafts: &Self::Output) -> Option<Outcome> {
        match drafts.first()? {
            Draft::Refused(refusal) => Outcome::of_refusal(*refusal),
            _ => Some(Outcome::OnAttempt),
        }
    }

    /// How an attempt ended is on its row, whoever ended it with whatever was presented.
    async fn again(&self, tx: &mut Tx, outcome: Outcome) -> Result<Self::Output, StoreError> {
        let Outcome::OnAttempt = outcome else {
            return Ok(vec![Draft::Refused(outcome.refusal())]);
        };
        let attempt = self.ends.first().map(|one| one.claim.attempt);
        let locked = lock_pairs(tx, attempt.as_slice()).await?;
        let ended = attempt.and_then(|attempt| locked.find(attempt)?.ended());
        let draft = ended.map_or(Draft::Nothing, |ended| Draft::Ended(ended, true));
        Ok(vec![draft])
    }
}

enum Decision {
    Finish(Box<Finish>),
    Answer(Draft),
}

fn decide_end(
    tx: &Tx,
    pair: &Pair,
    one: &AgentEnd,
    clock: ClockReading,
) -> Result<Decision, Refusal> {
    let (token, operation, cause, message, content) = match &one.kind {
        AgentEndKind::Stopped => return decide_stopped(tx, pair, one, clock.now),
        AgentEndKind::GiveBack {
            claim_request,
            reason,
        } => return decide_given_back(tx, pair, one, (*claim_request, reason), clock),
        AgentEndKind::Fail {
            token,
            code,
            message,
        } => {
            let parts = [code.as_str().as_bytes(), message.as_bytes()];
            let content = content_digest(Operation::Fail, &parts);
            (
                token,
                Operation::Fail,
                Cause::AgentFailed(*code),
                message,
                content,
            )
        }
        AgentEndKind::Release { token, reason } => {
            let content = content_digest(Operation::Release, &[reason.as_bytes()]);
            (token, Operation::Release, Cause::Released, reason, content)
        }
    };
    let answer = FinalAnswer {
        operation: if operation == Operation::Fail {
            "fail"
        } else {
            "release"
        }
        .to_owned(),
        epoch: one.claim.epoch,
        digest: *token,
        content,
    };
    if let Some(stored) = stored_answer(pair, one, &answer) {
        return stored.map(Decision::Answer);
    }
    let fence = &pair.attempt.fence;
    let facts = judge(tx.fence, fence, &one.claim, Some(token), operation, clock)
        .map_err(Refusal::Fence)?;
    let ending = decide(&pair.job.facts, cause, clock.now);
    let end = Finish::attempt(pair, facts, &ending)
        .message(message)
        .written_by(&answer);
    Ok(Decision::Finish(Box::new(end)))
}

/// The answer that is stored for this writer, if there is one. Nothing is written for it.
fn stored_answer(
    pair: &Pair,
    one: &AgentEnd,
    answer: &FinalAnswer,
) -> Option<Result<Draft, Refusal>> {
    check_identity(&pair.attempt.fence, &one.claim).ok()?;
    let stored = pair.attempt.final_answer.as_ref()?;
    if stored.epoch != answer.epoch || stored.digest != answer.digest {
        return None;
    }
    if stored.operation != answer.operation || stored.content != answer.content {
        return Some(Err(Refusal::OtherContent));
    }
    pair.ended().map(|ended| Ok(Draft::Ended(ended, true)))
}

/// The fence with the claim's request id in the place of the token: right for as long as nobody has
/// presented the epoch.
fn decide_given_back(
    tx: &Tx,
    pair: &Pair,
    one: &AgentEnd,
    (claim_request, reason): (RequestId, &str),
    clock: ClockReading,
) -> Result<Decision, Refusal> {
    let fence = &pair.attempt.fence;
    let mut facts = judge(
        tx.fence,
        fence,
        &one.claim,
        None,
        Operation::GiveBack,
        clock,
    )
    .map_err(Refusal::Fence)?;
    let unpresented = pair.attempt.unpresented_claim;
    if tx.fence != FenceMode::OnlyWhere && unpresented != Some(claim_request.0) {
        return Err(Refusal::Fence(FenceViolation::WrongToken));
    }
    facts.unpresented_claim = match tx.fence {
        FenceMode::OnlyPure => unpresented,
        FenceMode::Both | FenceMode::OnlyWhere => Some(claim_request.0),
    };
    let ending = decide(&pair.job.facts, Cause::Released, clock.now);
    let end = Finish::attempt(pair, facts, &ending).message(reason);
    Ok(Decision::Finish(Box::new(end)))
}

fn decide_stopped(
    tx: &Tx,
    pair: &Pair,
    one: &AgentEnd,
    now: OffsetDateTime,
) -> Result<Decision, Refusal> {
    let fence = &pair.attempt.fence;
    let facts = judge_without_time(tx.fence, fence, &one.claim).map_err(Refusal::Fence)?;
    if let Some(ended) = pair.ended() {
        return Ok(Decision::Answer(Draft::Ended(ended, true)));
    }
    if pair.job.facts.status != JobStatus::Cancelling {
        return Ok(Decision::Answer(Draft::Nothing));
    }
    let ending = decide(&pair.job.facts, Cause::Stopped, now);
    let end = Finish::attempt(pair, facts, &ending);
    Ok(Decision::Finish(Box::new(end)))
}
