//! What must hold, as pure functions of one transition. The ids are those of the metric by which
//! production reports a violation.
//!
//! | id | promise |
//! |---|---|
//! | FP-1 | A job has at most one live attempt. |
//! | FP-2 | A job that has ended has no live attempt, and stays as it ended. |
//! | FP-3 | A job has one output if it succeeded and none otherwise, and it is that of the attempt whose lease committed it. |
//! | FP-4 | A hold is settled exactly once, with the job's end: captured if it succeeded, given back if not. |
//! | FP-5 | A job has one terminal event if it has ended and none before. |
//! | FP-6 | A job that was cancelling never succeeds, and is not queued again. |
//! | FP-7 | Epochs of a job strictly increase. |
//! | FP-8 | A message without authority changes nothing: stale, guessed, expired, superseded, or a verdict that was taken over. |
//! | FP-9 | A job is charged for at most its budget, for every loss after acceptance, and for nothing twice. |
//! | FP-10 | Every job ends when time goes on. |
//! | FP-11 | A committing attempt belongs to the control plane: no hello and no frame changes it, but `stopped` when cancelling. |
//! | FP-12 | Jobs and attempts move along the arrows of their state machines only. |
//! | FP-13 | A lease is used before its end only, by the latest time that was durably seen, also at COMMIT. |
//! | FP-14 | A sweep ends no lease and takes over no verification before its time. |
//! | FP-15 | An honest agent that comes back in time goes on, also if the welcome before was lost. |
//! | FP-16 | Job and attempts agree: active with one held attempt, verifying with one that is committing, cancelling with one live, else none. |
//! | FP-17 | The pair that a resume replaced is dead once the new one was presented. |

mod authority;
mod steps;
mod worlds;

use crate::scope::Scope;
use crate::step::Step;
use crate::world::World;

/// One transition, to be judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transition<'a> {
    /// The bounds, for the budget.
    pub(crate) scope: &'a Scope,
    /// What was stored.
    pub(crate) before: &'a World,
    /// What happened.
    pub(crate) step: &'a Step,
    /// What was stored before, as old as `after` is (a slow transaction takes a tick).
    pub(crate) aged: &'a World,
    /// What is stored now.
    pub(crate) after: &'a World,
    /// Whether it is a hello that lists just what its agent was last told.
    pub(crate) is_honest: bool,
}

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table above says it")]
pub enum Invariant {
    OneLiveAttempt,
    EndedHasNoAuthority,
    OneOutputOfTheCommitter,
    HoldSettledOnce,
    OneTerminalEvent,
    CancellingNeverSucceeds,
    EpochsIncrease,
    StaleChangesNothing,
    BudgetIsKept,
    EveryJobEnds,
    CommittingIsOurs,
    OnlyKnownArrows,
    DeadLeaseClaimsNothing,
    LiveLeaseIsNotSwept,
    HonestAgentGoesOn,
    JobAgreesWithAttempts,
    ReplacedPairDies,
}

impl Invariant {
    /// All of them, in the order of their ids.
    pub const ALL: [Self; 17] = [
        Self::OneLiveAttempt,
        Self::EndedHasNoAuthority,
        Self::OneOutputOfTheCommitter,
        Self::HoldSettledOnce,
        Self::OneTerminalEvent,
        Self::CancellingNeverSucceeds,
        Self::EpochsIncrease,
        Self::StaleChangesNothing,
        Self::BudgetIsKept,
        Self::EveryJobEnds,
        Self::CommittingIsOurs,
        Self::OnlyKnownArrows,
        Self::DeadLeaseClaimsNothing,
        Self::LiveLeaseIsNotSwept,
        Self::HonestAgentGoesOn,
        Self::JobAgreesWithAttempts,
        Self::ReplacedPairDies,
    ];

    /// Its id, a metric's label.
    pub fn id(self) -> &'static str {
        match self {
            Self::OneLiveAttempt => "FP-1",
            Self::EndedHasNoAuthority => "FP-2",
            Self::OneOutputOfTheCommitter => "FP-3",
            Self::HoldSettledOnce => "FP-4",
            Self::OneTerminalEvent => "FP-5",
            Self::CancellingNeverSucceeds => "FP-6",
            Self::EpochsIncrease => "FP-7",
            Self::StaleChangesNothing => "FP-8",
            Self::BudgetIsKept => "FP-9",
            Self::EveryJobEnds => "FP-10",
            Self::CommittingIsOurs => "FP-11",
            Self::OnlyKnownArrows => "FP-12",
            Self::DeadLeaseClaimsNothing => "FP-13",
            Self::LiveLeaseIsNotSwept => "FP-14",
            Self::HonestAgentGoesOn => "FP-15",
            Self::JobAgreesWithAttempts => "FP-16",
            Self::ReplacedPairDies => "FP-17",
        }
    }

    pub(crate) fn bit(self) -> u32 {
        1 << self as u8
    }

    /// Whether a transition keeps it. [`Invariant::EveryJobEnds`] is a matter of states and judged
    /// apart, once for each.
    pub(crate) fn is_kept(self, transition: &Transition<'_>) -> bool {
        let after = transition.after;
        match self {
            Self::OneLiveAttempt => worlds::one_live_attempt(after),
            Self::EndedHasNoAuthority => {
                worlds::ended_has_no_authority(after) && steps::ended_stays(transition)
            }
            Self::OneOutputOfTheCommitter => {
                worlds::one_output(after) && steps::committer_held_the_lease(transition)
            }
            Self::HoldSettledOnce => worlds::hold_settled_once(after),
            Self::OneTerminalEvent => worlds::one_terminal_event(after),
            Self::CancellingNeverSucceeds => worlds::cancelling_never_succeeds(after),
            Self::EpochsIncrease => steps::epochs_increase(transition),
            Self::StaleChangesNothing => authority::stale_changes_nothing(transition),
            Self::BudgetIsKept => {
                worlds::budget_is_kept(after, transition.scope)
                    && steps::charges_agree(transition)
                    && steps::losses_are_charged(transition)
            }
            Self::EveryJobEnds => true,
            Self::CommittingIsOurs => authority::committing_is_ours(transition),
            Self::OnlyKnownArrows => steps::only_known_arrows(transition),
            Self::DeadLeaseClaimsNothing => authority::dead_lease_claims_nothing(transition),
            Self::LiveLeaseIsNotSwept => steps::live_lease_is_not_swept(transition),
            Self::HonestAgentGoesOn => authority::honest_agent_goes_on(transition),
            Self::JobAgreesWithAttempts => worlds::job_agrees_with_attempts(after),
            Self::ReplacedPairDies => authority::replaced_pair_dies(transition),
        }
    }
}
