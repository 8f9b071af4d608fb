//! Journal entries, and what failed runs leave.

use std::time::Duration;

use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::AttemptId;
use fencepost_protocol::{
    AgentEnvelope, AgentFrame, Code, GatewayFrame, LeaseRef, Recorded, Resumed,
};

use super::super::testing::Bench;
use crate::core::{Effect, JobOutcome};

const KEPT: LeaseDuration = LeaseDuration::seconds(60);

fn failure() -> JobOutcome {
    JobOutcome::Failed {
        code: "runner_failed",
        message: "ffmpeg ended with 1".to_owned(),
    }
}

fn done() -> GatewayFrame {
    GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: None,
    }
}

/// The kind, epoch and id of a journal entry.
fn entry(said: &AgentEnvelope) -> (String, i64, fencepost_domain::ids::EventId) {
    match &said.frame {
        AgentFrame::Event {
            kind,
            lease,
            event_id,
            ..
        } => (kind.clone(), lease.lease_epoch, *event_id),
        other => panic!("{other:?}"),
    }
}

/// The lease as it goes on after a reconnect.
fn resumed(lease: LeaseRef) -> Resumed {
    Resumed {
        job_id: lease.job_id,
        attempt_id: lease.attempt_id,
        lease_epoch: lease.lease_epoch + 1,
        commit_token: CommitToken::from_entropy([9; TOKEN_BYTES]),
        lease_remaining_ms: 60_000,
    }
}

/// A bench whose one job has failed, with the failure recorded.
fn failed() -> (Bench, LeaseRef) {
    let (mut bench, lease) = Bench::working();
    bench.keep(Some(KEPT), Vec::new());
    bench.end_job(lease.attempt_id, failure());
    bench.answer_last(done());
    (bench, lease)
}

#[test]
fn a_failed_run_is_kept_before_it_is_reported_and_handed_over_after_it() {
    let (mut bench, lease) = Bench::working();
    bench.keep(Some(KEPT), Vec::new());
    bench.end_job(lease.attempt_id, failure());
    assert_eq!(bench.story(), ["keep", "persist", "say fail"]);
    bench.answer_last(done());
    let AgentFrame::Retain {
        lease: named,
        handle,
        retain_for,
        ..
    } = bench.last_said()
    else {
        panic!("{:?}", bench.last_said());
    };
    assert_eq!((named, retain_for), (lease, KEPT));
    assert_eq!(handle, lease.attempt_id.to_string());
    let records = bench.effects.iter().rev();
    let mut records = records.filter(|effect| matches!(effect, Effect::Persist(_)));
    assert!(records.next().is_some(), "it is on disk before it is said");
    bench.effects.clear();
    bench.answer(
        &AgentEnvelope {
            request_id: fencepost_domain::ids::RequestId::new(),
            frame: AgentFrame::Heartbeat,
        },
        done(),
    );
    assert!(bench.story().is_empty(), "another answer is not its answer");
}

#[test]
fn a_hand_over_takes_no_slot_and_is_repeated_until_it_is_answered() {
    let (mut bench, lease) = failed();
    bench.disconnect();
    bench.effects.clear();
    bench.connect();
    let recorded = Recorded {
        attempt_id: lease.attempt_id,
        status: "failed".to_owned(),
    };
    bench.welcome(Vec::new(), vec![recorded], Vec::new());
    assert!(
        bench.story().contains(&"say retain".to_owned()),
        "{:?}",
        bench.story()
    );
    assert!(
        bench.story().contains(&"say pull".to_owned()),
        "{:?}",
        bench.story()
    );
    let retain = bench.said_of_type("retain");
    bench.effects.clear();
    bench.answer(&retain, done());
    assert_eq!(bench.story()[0], "forget");
}

#[test]
fn what_is_kept_is_deleted_when_its_time_is_over_without_anybody_saying_so() {
    let (mut bench, lease) = failed();
    bench.disconnect();
    bench.effects.clear();
    bench.freeze(59_999);
    assert!(!bench.story().contains(&"reap".to_owned()));
    bench.freeze(1);
    assert_eq!(bench.take_story(), ["reap"]);
    bench.freeze(1_000);
    assert!(bench.take_story().is_empty(), "it is deleted once");
    bench.reaped(lease.attempt_id);
    assert_eq!(
        bench.take_story(),
        ["forget"],
        "the hand-over is not needed any more"
    );
}

#[test]
fn a_gateway_that_says_reap_is_answered_when_it_is_gone_or_was_never_there() {
    let (mut bench, lease) = failed();
    bench.effects.clear();
    let reap = |handle: String| GatewayFrame::Reap { handle };
    bench.hear(None, None, reap(lease.attempt_id.to_string()));
    assert_eq!(bench.take_story(), ["reap"]);
    bench.reaped(lease.attempt_id);
    assert!(matches!(
        bench.last_said(),
        AgentFrame::Pull { .. } | AgentFrame::Reaped { .. }
    ));
    assert!(bench.story().contains(&"say reaped".to_owned()));
    bench.effects.clear();
    for unknown in [AttemptId::new().to_string(), "../../etc".to_owned()] {
        bench.hear(None, None, reap(unknown.clone()));
        assert!(matches!(bench.last_said(), AgentFrame::Reaped { handle } if handle == unknown));
    }
}

#[test]
fn nothing_is_kept_of_what_did_not_fail_or_if_nothing_is_to_be_kept() {
    let (mut bench, lease) = Bench::working();
    bench.keep(None, Vec::new());
    bench.end_job(lease.attempt_id, failure());
    bench.answer_last(done());
    let (mut stopped, lease) = Bench::working();
    stopped.keep(Some(KEPT), Vec::new());
    stopped.end_job(lease.attempt_id, JobOutcome::Stopped);
    for bench in [bench, stopped] {
        assert!(!bench.story().contains(&"keep".to_owned()));
        assert!(!bench.story().contains(&"say retain".to_owned()));
    }
}

#[test]
fn a_hand_over_or_failure_that_is_refused_deletes_what_was_kept() {
    for refused in ["fail", "retain"] {
        let (mut bench, lease) = Bench::working();
        bench.keep(Some(KEPT), Vec::new());
        bench.end_job(lease.attempt_id, failure());
        if refused == "retain" {
            bench.answer_last(done());
        }
        let last = bench.said_of_type(refused);
        bench.effects.clear();
        bench.refuse(&last, Code::CommitConflict, None);
        assert_eq!(bench.story()[..2], ["reap", "forget"], "{refused}");
    }
}

#[test]
fn what_an_earlier_run_kept_goes_when_the_rest_of_its_time_is_over() {
    let mut bench = Bench::new(1);
    let (old, fresh) = (AttemptId::new(), AttemptId::new());
    let left = vec![(old, Duration::ZERO), (fresh, Duration::from_secs(30))];
    bench.keep(Some(KEPT), left);
    bench.freeze(0);
    assert_eq!(bench.take_story(), ["reap"]);
    bench.freeze(30_000);
    assert_eq!(bench.take_story(), ["reap"]);
}

#[test]
fn a_journal_says_how_it_began_and_how_it_ended() {
    let (mut bench, lease) = Bench::working();
    bench.end_job(lease.attempt_id, failure());
    let events = bench.events();
    let (kind, epoch, _) = entry(events.last().unwrap());
    assert_eq!((kind.as_str(), epoch), ("run.failed", lease.lease_epoch));
    let mut all = bench.effects.iter().filter_map(|effect| match effect {
        Effect::Send(said) => Some(serde_json::to_value(&said.frame).unwrap()["type"].clone()),
        _ => None,
    });
    let event = all.by_ref().position(|word| word == "event").unwrap();
    assert!(
        all.position(|word| word == "fail").is_some(),
        "{event}: the fail comes after it"
    );
}

#[test]
fn an_unanswered_event_is_said_again_under_its_first_pair_and_once_more_under_the_current_one() {
    let (mut bench, lease) = Bench::working();
    bench.answers_events = false;
    bench.end_job(lease.attempt_id, failure());
    let (_, _, id) = entry(bench.events().last().unwrap());
    bench.disconnect();
    bench.effects.clear();
    bench.connect();
    bench.welcome(vec![resumed(lease)], Vec::new(), Vec::new());
    let again = bench.events().pop().unwrap();
    assert_eq!(entry(&again).1, lease.lease_epoch);
    assert_eq!(entry(&again).2, id);
    assert!(
        !bench.story().contains(&"say fail".to_owned()),
        "events come first"
    );
    bench.effects.clear();
    bench.refuse(&again, Code::RunLeaseConflict, None);
    let once_more = bench.events().pop().unwrap();
    assert_eq!(entry(&once_more).1, lease.lease_epoch + 1);
    assert_eq!(entry(&once_more).2, id);
    assert_eq!(bench.story(), ["persist"]);
    bench.effects.clear();
    bench.refuse(&once_more, Code::RunLeaseConflict, None);
    assert!(bench.events().is_empty(), "and not a third time");
    assert_eq!(bench.story(), ["say fail"]);
}

#[test]
fn a_last_word_does_not_wait_for_ever_for_events() {
    let (mut bench, lease) = Bench::working();
    bench.answers_events = false;
    bench.end_job(lease.attempt_id, failure());
    bench.disconnect();
    bench.effects.clear();
    bench.connect();
    bench.welcome(vec![resumed(lease)], Vec::new(), Vec::new());
    bench.pass(4_800);
    assert!(!bench.story().contains(&"say fail".to_owned()));
    bench.pass(400);
    assert!(bench.story().contains(&"say fail".to_owned()));
}
