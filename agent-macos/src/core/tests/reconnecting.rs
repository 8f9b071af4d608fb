use fencepost_domain::attempt::Phase;
use fencepost_protocol::{
    AgentFrame, Code, Directive, GatewayFrame, LeaseRef, Lost, Recorded, Resumed,
};

use super::super::testing::{Bench, output, token};
use super::super::{Effect, JobOutcome};
use crate::outbox::{LeaseRecord, Pending};

fn resumed(lease: LeaseRef) -> Resumed {
    Resumed {
        job_id: lease.job_id,
        attempt_id: lease.attempt_id,
        lease_epoch: lease.lease_epoch + 1,
        commit_token: token(2),
        lease_remaining_ms: 60_000,
    }
}

fn recorded(lease: LeaseRef) -> Recorded {
    Recorded {
        attempt_id: lease.attempt_id,
        status: "succeeded".to_owned(),
    }
}

fn lost(lease: LeaseRef, reason: &str) -> Lost {
    Lost {
        attempt_id: lease.attempt_id,
        reason: reason.to_owned(),
    }
}

fn reconnect(bench: &mut Bench) {
    bench.disconnect();
    bench.effects.clear();
    bench.connect();
}

fn left(pending: Option<Pending>) -> LeaseRecord {
    let lease = super::super::testing::offer().lease();
    LeaseRecord {
        job_id: lease.job_id,
        attempt_id: lease.attempt_id,
        lease_epoch: 4,
        commit_token: token(1),
        object_key: "key".to_owned(),
        phase: Phase::Running,
        events: Vec::new(),
        pending,
    }
}

#[test]
fn hello_presents_what_is_held_with_its_secret_and_nothing_else_is_said() {
    let (mut bench, lease) = Bench::working();
    reconnect(&mut bench);
    bench
        .core
        .on_job_progress(lease.attempt_id, Phase::Uploading, None, bench.now);
    bench.pass(5_000);
    let AgentFrame::Hello(hello) = bench.said().remove(0).frame else {
        panic!()
    };
    assert_eq!(hello.held[0].lease, lease);
    assert_eq!(hello.held[0].commit_token, token(1));
    assert_eq!(bench.said().len(), 1);
}

#[test]
fn a_resumed_lease_is_on_disk_before_the_first_frame_under_it() {
    let (mut bench, lease) = Bench::working();
    reconnect(&mut bench);
    bench
        .effects
        .retain(|effect| matches!(effect, Effect::Send(_)));
    bench.welcome(vec![resumed(lease)], Vec::new(), Vec::new());
    assert_eq!(
        bench.story(),
        ["say hello", "persist", "move", "say progress"]
    );
    let Effect::Persist(record) = &bench.effects[1] else {
        panic!()
    };
    assert_eq!((record.lease_epoch, &record.commit_token), (2, &token(2)));
    assert_eq!(bench.last_said().lease().unwrap().lease_epoch, 2);
}

#[test]
fn an_unrecorded_commit_is_said_again_under_the_new_pair() {
    let (mut bench, lease) = Bench::working();
    bench.end_job(lease.attempt_id, JobOutcome::Uploaded(output()));
    reconnect(&mut bench);
    bench.welcome(vec![resumed(lease)], Vec::new(), Vec::new());
    assert_eq!(
        bench.story(),
        ["say hello", "persist", "say progress", "say commit"]
    );
    let AgentFrame::Commit {
        lease: said,
        commit_token,
        output: declared,
    } = bench.last_said()
    else {
        panic!()
    };
    assert_eq!(
        (said.lease_epoch, commit_token, declared),
        (2, token(2), output())
    );
}

#[test]
fn a_recorded_commit_is_repeated_under_the_pair_it_was_first_said_with() {
    let (mut bench, lease) = Bench::working();
    bench.end_job(lease.attempt_id, JobOutcome::Uploaded(output()));
    reconnect(&mut bench);
    bench.welcome(Vec::new(), vec![recorded(lease)], Vec::new());
    assert_eq!(bench.story(), ["say hello", "say commit"]);
    let AgentFrame::Commit {
        lease: said,
        commit_token,
        ..
    } = bench.last_said()
    else {
        panic!()
    };
    assert_eq!((said, commit_token), (lease, token(1)));
    bench.answer_last(GatewayFrame::CommitOk { replayed: true });
    assert!(bench.core.view().is_empty());
}

#[test]
fn a_lost_lease_stops_its_job_and_a_cancelled_one_is_confirmed() {
    for (reason, last) in [("expired", "say pull"), ("buyer_cancelled", "say stopped")] {
        let (mut bench, lease) = Bench::working();
        reconnect(&mut bench);
        bench.welcome(Vec::new(), Vec::new(), vec![lost(lease, reason)]);
        assert_eq!(bench.take_story(), ["say hello", "forget", "stop"]);
        bench.end_job(lease.attempt_id, JobOutcome::Uploaded(output()));
        assert_eq!(bench.take_story()[0], last);
    }
}

#[test]
fn a_lease_that_the_welcome_does_not_mention_is_not_worked_on() {
    let (mut bench, _) = Bench::working();
    reconnect(&mut bench);
    bench.welcome(Vec::new(), Vec::new(), Vec::new());
    assert_eq!(bench.take_story(), ["say hello", "forget", "stop"]);
}

#[test]
fn a_busy_gateway_is_greeted_again_and_nothing_is_lost() {
    let (mut bench, lease) = Bench::working();
    reconnect(&mut bench);
    let hello = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.answer(
        &hello,
        GatewayFrame::Busy {
            retry_after_ms: 2_000,
        },
    );
    bench.pass(1_800);
    assert!(bench.take_story().is_empty());
    bench.pass(200);
    assert_eq!(bench.story(), ["say hello"]);
    bench.welcome(vec![resumed(lease)], Vec::new(), Vec::new());
    assert_eq!(bench.core.view().len(), 1);
}

#[test]
fn answers_of_an_older_epoch_do_not_touch_the_resumed_lease() {
    let (mut bench, lease) = Bench::working();
    reconnect(&mut bench);
    bench.welcome(vec![resumed(lease)], Vec::new(), Vec::new());
    bench.effects.clear();
    let old = GatewayFrame::ProgressOk {
        lease_expires_at: time::OffsetDateTime::UNIX_EPOCH,
        lease_remaining_ms: 0,
        directive: Directive::Stop,
        reason: None,
    };
    bench.hear(None, Some(lease), old);
    assert!(bench.story().is_empty());
}

#[test]
fn after_a_restart_a_pending_commit_is_presented_and_repeated_identically() {
    let record = left(Some(Pending::Commit { output: output() }));
    let mut bench = Bench::with_left(1, vec![record.clone()]);
    bench.effects.clear();
    bench.connect();
    let AgentFrame::Hello(hello) = bench.last_said() else {
        panic!()
    };
    assert_eq!(hello.held[0].lease, record.lease());
    bench.welcome(Vec::new(), vec![recorded(record.lease())], Vec::new());
    let AgentFrame::Commit {
        lease,
        commit_token,
        output: declared,
    } = bench.last_said()
    else {
        panic!()
    };
    assert_eq!(
        (lease, commit_token, declared),
        (record.lease(), token(1), output())
    );
}

#[test]
fn after_a_restart_a_lease_whose_work_is_gone_is_handed_back() {
    let record = left(None);
    let mut bench = Bench::with_left(1, vec![record.clone()]);
    bench.connect();
    bench.welcome(vec![resumed(record.lease())], Vec::new(), Vec::new());
    let AgentFrame::Release {
        lease,
        commit_token,
        ..
    } = bench.last_said()
    else {
        panic!()
    };
    assert_eq!((lease.lease_epoch, commit_token), (5, token(2)));
}

#[test]
fn an_unconfirmed_accept_becomes_work_when_the_lease_is_resumed() {
    let mut bench = Bench::connected(1);
    let offer = super::super::testing::offer();
    let lease = offer.lease();
    bench.offer(offer);
    reconnect(&mut bench);
    bench.welcome(vec![resumed(lease)], Vec::new(), Vec::new());
    assert_eq!(
        bench.story(),
        ["say hello", "persist", "start", "say progress"]
    );
}

#[test]
fn a_hello_that_is_refused_for_good_ends_the_agent() {
    let mut bench = Bench::new(1);
    bench.connect();
    let hello = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.refuse(&hello, Code::Unauthorized, None);
    assert_eq!(bench.story(), ["exit"]);
}
