use fencepost_protocol::{AgentFrame, Code, GatewayFrame};

use super::super::testing::{Bench, output};
use super::super::{Effect, JobOutcome};
use crate::outbox::Pending;

fn committing() -> (Bench, fencepost_protocol::LeaseRef) {
    let (mut bench, lease) = Bench::working();
    bench.end_job(lease.attempt_id, JobOutcome::Uploaded(output()));
    (bench, lease)
}

#[test]
fn a_commit_is_on_disk_before_it_is_said_and_gone_once_it_is_answered() {
    let (mut bench, lease) = committing();
    let Effect::Persist(record) = &bench.effects[0] else {
        panic!("{:?}", bench.story())
    };
    assert_eq!(record.pending, Some(Pending::Commit { output: output() }));
    assert_eq!(
        bench.take_story(),
        ["persist", "say progress", "say commit"]
    );
    bench.hear(
        None,
        Some(lease),
        GatewayFrame::CommitOk { replayed: false },
    );
    assert_eq!(bench.take_story(), ["forget", "say pull"]);
}

#[test]
fn a_commit_that_is_being_verified_is_repeated_word_for_word_after_a_pause() {
    let (mut bench, _) = committing();
    let commit = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.refuse(&commit, Code::Verifying, Some(1_000));
    bench.pass(800);
    assert!(bench.take_story().is_empty());
    bench.pass(200);
    let repeated = bench.said().pop().unwrap();
    assert_eq!(
        serde_json::to_value(&repeated.frame).unwrap(),
        serde_json::to_value(&commit.frame).unwrap()
    );
}

#[test]
fn a_commit_is_not_given_up_because_its_lease_has_passed() {
    let (mut bench, _) = committing();
    bench.disconnect();
    bench.effects.clear();
    bench.pass(120_000);
    assert!(bench.take_story().is_empty());
}

#[test]
fn a_rejected_commit_is_over() {
    let (mut bench, lease) = committing();
    bench.effects.clear();
    let message = "the job was cancelled".to_owned();
    let frame = GatewayFrame::CommitRejected {
        code: Code::BuyerCancelled,
        message,
    };
    bench.hear(None, Some(lease), frame);
    assert_eq!(bench.take_story(), ["forget", "say pull"]);
}

#[test]
fn a_refused_renewal_beside_a_commit_does_not_drop_the_commit() {
    let (mut bench, _) = committing();
    let progress = bench
        .said()
        .into_iter()
        .find(|said| matches!(said.frame, AgentFrame::Progress { .. }))
        .unwrap();
    let commit = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.refuse(&progress, Code::LeaseConflict, None);
    assert!(bench.take_story().is_empty());
    bench.refuse(&commit, Code::CommitConflict, None);
    assert_eq!(bench.take_story(), ["forget", "say pull"]);
}

#[test]
fn a_commit_that_is_not_understood_becomes_a_failure() {
    let (mut bench, _) = committing();
    let commit = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.refuse(&commit, Code::InvalidRequest, None);
    assert_eq!(bench.take_story(), ["persist", "say fail"]);
}

#[test]
fn a_failure_is_reported_clean_and_bounded() {
    let (mut bench, lease) = Bench::working();
    let message = format!("a\0b{}", "x".repeat(100_000));
    bench.end_job(
        lease.attempt_id,
        JobOutcome::Failed {
            code: "runner_failed",
            message,
        },
    );
    assert_eq!(bench.story(), ["persist", "say fail"]);
    let AgentFrame::Fail {
        failure_code,
        message,
        ..
    } = bench.last_said()
    else {
        panic!()
    };
    assert_eq!(failure_code, "runner_failed");
    assert!(message.starts_with("ab") && message.len() <= 2_000);
}

#[test]
fn no_capacity_is_a_release() {
    let (mut bench, lease) = Bench::working();
    let message = "the disk is full".to_owned();
    bench.end_job(
        lease.attempt_id,
        JobOutcome::Failed {
            code: "no_capacity",
            message,
        },
    );
    assert_eq!(bench.story(), ["persist", "say release"]);
}

#[test]
fn draining_stops_the_job_hands_it_back_and_waits_for_the_answer() {
    let (mut bench, lease) = Bench::working();
    bench.drain();
    assert_eq!(bench.take_story(), ["say drain", "stop"]);
    assert!(!bench.core.is_drained());
    bench.end_job(lease.attempt_id, JobOutcome::Stopped);
    assert_eq!(bench.story(), ["persist", "say release"]);
    assert!(!bench.core.is_drained());
    bench.answer_last(GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: None,
    });
    assert!(bench.core.is_drained());
}

#[test]
fn draining_without_a_socket_leaves_the_release_in_the_outbox() {
    let (mut bench, lease) = Bench::working();
    bench.disconnect();
    bench.drain();
    bench.effects.clear();
    bench.end_job(lease.attempt_id, JobOutcome::Stopped);
    assert_eq!(bench.take_story(), ["persist"]);
    assert!(bench.core.is_drained());
}

#[test]
fn a_message_that_was_too_large_fails_its_attempt_and_is_not_sent_again() {
    let (mut bench, lease) = Bench::working();
    bench.pass(20_200);
    bench.core.on_too_large();
    bench.disconnect();
    bench
        .effects
        .retain(|effect| !matches!(effect, Effect::Send(_)));
    assert_eq!(bench.take_story(), ["persist", "stop"]);
    bench.end_job(lease.attempt_id, JobOutcome::Stopped);
    assert!(matches!(bench.core.view()[0].doing, "reporting a failure"));
}
