//! Mistakes that are built in on purpose are found. One that is not is a hole in the model.

use fencepost_model::{Fault, Invariant, Network, Scope, explore};

const COUNTED: Network = Network::Counted { in_flight: 2 };

fn small(network: Network) -> Scope {
    Scope {
        devices: 1,
        attempts: 2,
        ..Scope::two_devices(network)
    }
}

/// Explores a small world with the mistake in it, and says which promises it breaks first.
fn broken_by(fault: Fault, network: Network) -> Vec<&'static str> {
    let finding = explore(small(network).with(fault), 1);
    println!("{fault:?}: {finding:#?}");
    finding.broken.iter().map(|(one, _)| one.id()).collect()
}

fn assert_found(fault: Fault, network: Network, expected: Invariant) {
    let broken = broken_by(fault, network);
    assert!(broken.contains(&expected.id()), "{fault:?}: {broken:?}");
}

#[test]
fn an_epoch_that_is_not_compared_is_found() {
    assert_found(
        Fault::NoEpochCheck,
        Network::Open,
        Invariant::StaleChangesNothing,
    );
}

#[test]
fn a_token_that_is_not_compared_is_found() {
    assert_found(
        Fault::NoTokenCheck,
        Network::Open,
        Invariant::StaleChangesNothing,
    );
}

#[test]
fn an_expiry_that_is_not_looked_at_again_before_commit_is_found() {
    assert_found(
        Fault::NoExpiryReCheck,
        Network::Open,
        Invariant::DeadLeaseClaimsNothing,
    );
}

#[test]
fn a_sweep_that_does_not_look_again_under_the_lock_is_found() {
    assert_found(
        Fault::SweepWithoutReCheck,
        Network::Open,
        Invariant::LiveLeaseIsNotSwept,
    );
}

#[test]
fn a_hello_that_rotates_a_committing_attempt_is_found() {
    assert_found(
        Fault::RotateCommitting,
        Network::Open,
        Invariant::CommittingIsOurs,
    );
}

#[test]
fn a_progress_that_renews_a_verification_is_found() {
    assert_found(
        Fault::ProgressRenewsVerification,
        Network::Open,
        Invariant::CommittingIsOurs,
    );
}

#[test]
fn a_progress_that_renews_a_verification_keeps_a_job_from_ever_ending() {
    assert_found(
        Fault::ProgressRenewsVerification,
        Network::Open,
        Invariant::EveryJobEnds,
    );
}

#[test]
fn a_hello_that_forgets_a_committing_attempt_is_found() {
    assert_found(
        Fault::ForgetCommitting,
        Network::Open,
        Invariant::CommittingIsOurs,
    );
}

#[test]
fn a_decision_on_an_old_snapshot_is_found() {
    assert_found(
        Fault::UnlockedJoin,
        Network::Open,
        Invariant::CancellingNeverSucceeds,
    );
}

#[test]
fn a_replaced_pair_that_is_good_for_every_frame_is_found() {
    assert_found(
        Fault::ReplacedPairIsNotDead,
        Network::Open,
        Invariant::StaleChangesNothing,
    );
}

#[test]
fn a_resume_that_remembers_the_overwritten_pair_loses_an_honest_agent() {
    assert_found(
        Fault::RemembersOverwrittenPair,
        COUNTED,
        Invariant::HonestAgentGoesOn,
    );
}

#[test]
fn a_resume_that_forgets_the_replaced_pair_loses_an_honest_agent() {
    assert_found(
        Fault::ForgetsReplacedPair,
        COUNTED,
        Invariant::HonestAgentGoesOn,
    );
}

#[test]
fn a_replaced_pair_that_outlives_the_new_one_is_found() {
    assert_found(
        Fault::ReplacedPairOutlivesNewOne,
        Network::Open,
        Invariant::ReplacedPairDies,
    );
}

#[test]
fn a_hello_that_reconciles_its_own_session_is_found() {
    assert_found(
        Fault::ReconcilesOwnSession,
        Network::Open,
        Invariant::StaleChangesNothing,
    );
}

#[test]
fn a_late_hello_that_is_heard_is_found() {
    assert_found(
        Fault::HearsOlderSession,
        Network::Open,
        Invariant::StaleChangesNothing,
    );
}

#[test]
fn a_hello_that_is_heard_twice_loses_an_honest_agent() {
    let scope = Scope {
        sessions: 3,
        ..small(COUNTED)
    };
    let finding = explore(scope.with(Fault::HearsHelloTwice), 1);
    println!("{finding:#?}");
    let broken: Vec<_> = finding.broken.iter().map(|(one, _)| *one).collect();
    assert!(broken.contains(&Invariant::HonestAgentGoesOn), "{broken:?}");
}

#[test]
fn a_verdict_that_settles_after_a_take_over_is_found() {
    assert_found(
        Fault::NoVerificationEpoch,
        Network::Open,
        Invariant::StaleChangesNothing,
    );
}

#[test]
fn a_clock_behind_its_mark_that_is_believed_is_found() {
    assert_found(
        Fault::BelievesRegressedClock,
        Network::Open,
        Invariant::DeadLeaseClaimsNothing,
    );
}

#[test]
fn an_epoch_that_is_bumped_on_the_attempt_alone_is_found() {
    assert_found(
        Fault::RevokeKeepsCounter,
        Network::Open,
        Invariant::EpochsIncrease,
    );
}

#[test]
fn losses_that_cost_nothing_are_found() {
    assert_found(Fault::LossesAreFree, Network::Open, Invariant::BudgetIsKept);
}

#[test]
fn every_mistake_there_is_has_its_test() {
    let tests = include_str!("faults.rs");
    for fault in Fault::ALL {
        let is_named = [",", ")"].map(|end| tests.contains(&format!("Fault::{fault:?}{end}")));
        assert!(is_named.contains(&true), "nothing looks for {fault:?}");
    }
}
