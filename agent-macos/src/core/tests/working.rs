use fencepost_domain::attempt::Phase;
use fencepost_protocol::{AgentFrame, Code, Directive, GatewayFrame};

use super::super::testing::{Bench, offer};
use super::super::{Effect, JobOutcome};
use crate::closing::Farewell;

#[test]
fn nothing_is_asked_before_the_welcome() {
    let mut bench = Bench::new(2);
    bench.connect();
    bench.pass(9_000);
    assert_eq!(bench.story(), ["say hello"]);
    bench.welcome(Vec::new(), Vec::new(), Vec::new());
    assert!(matches!(
        bench.last_said(),
        AgentFrame::Pull { slots_free: 2 }
    ));
}

#[test]
fn an_offer_is_on_disk_before_it_is_accepted_and_work_waits_for_the_confirmation() {
    let mut bench = Bench::connected(1);
    bench.effects.clear();
    bench.offer(offer());
    assert_eq!(bench.take_story(), ["persist", "say offer_accept"]);
    bench.offer(offer());
    assert_eq!(bench.take_story(), ["say offer_decline"]);
}

#[test]
fn a_confirmed_accept_starts_the_job_and_reports_at_once() {
    let mut bench = Bench::connected(2);
    bench.offer(offer());
    let said = bench.said();
    let accept = said
        .iter()
        .rfind(|s| matches!(s.frame, AgentFrame::OfferAccept { .. }))
        .unwrap();
    bench.effects.clear();
    let done = GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: Some(60_000),
    };
    bench.answer(accept, done);
    assert_eq!(bench.story(), ["start", "say progress"]);
}

#[test]
fn a_phase_is_reported_at_once_and_percents_in_measure() {
    let (mut bench, lease) = Bench::working();
    let report = |bench: &mut Bench, phase, percent| {
        bench
            .core
            .on_job_progress(lease.attempt_id, phase, Some(percent), bench.now);
        bench.pass(200);
    };
    report(&mut bench, Phase::Running, 5.0);
    assert!(bench.take_story().is_empty(), "a second has not passed");
    bench.pass(1_000);
    report(&mut bench, Phase::Running, 6.0);
    assert_eq!(bench.take_story(), ["say progress"]);
    bench.pass(1_000);
    report(&mut bench, Phase::Running, 20.0);
    assert!(
        bench.take_story().is_empty(),
        "the last report is not answered"
    );
    report(&mut bench, Phase::Uploading, 0.0);
    assert_eq!(bench.take_story(), ["persist", "say progress"]);
    report(&mut bench, Phase::Running, 99.0);
    assert!(bench.take_story().is_empty(), "phases never go back");
}

#[test]
fn a_lease_is_renewed_on_time_although_the_work_reports_nothing() {
    let (mut bench, _) = Bench::working();
    bench.pass(19_000);
    assert!(!bench.take_story().contains(&"say progress".to_owned()));
    bench.pass(1_200);
    assert_eq!(bench.take_story(), ["say progress"]);
}

#[test]
fn an_unanswered_renewal_makes_it_drop_the_socket() {
    let (mut bench, _) = Bench::working();
    bench.pass(20_200);
    bench.effects.clear();
    bench.pass(9_600);
    assert!(!bench.take_story().contains(&"reconnect".to_owned()));
    bench.pass(600);
    assert!(
        bench.story().contains(&"reconnect".to_owned()),
        "{:?}",
        bench.story()
    );
}

#[test]
fn the_deadline_counts_from_the_sending_of_the_confirmed_request() {
    let (mut bench, lease) = Bench::working();
    bench
        .core
        .on_job_progress(lease.attempt_id, Phase::Uploading, None, bench.now);
    let sent = bench.now;
    bench.pass(3_000);
    bench.confirm_progress();
    let moved = bench.effects.iter().find_map(|effect| match effect {
        Effect::MoveDeadline(_, deadline) => Some(*deadline),
        _ => None,
    });
    // Two seconds before the end, so that the children are gone by then.
    assert_eq!(moved, Some(sent.after_millis(58_000)));
}

#[test]
fn work_is_over_before_its_lease_is_and_nothing_is_said_about_it() {
    let (mut bench, _) = Bench::working();
    bench.disconnect();
    bench.pass(57_800);
    assert!(bench.take_story().is_empty());
    bench.pass(400);
    assert_eq!(bench.take_story(), ["forget", "stop"]);
}

#[test]
fn a_gateway_in_trouble_is_asked_until_the_last_confirmed_lease_is_nearly_over() {
    let (mut bench, _) = Bench::working();
    let confirmed = bench.now;
    while bench.now.millis_since(confirmed) < 57_800 {
        bench.pass(200);
        for said in bench.said() {
            if matches!(said.frame, AgentFrame::Progress { .. }) {
                let retry_after_ms = 1_000;
                bench.answer(&said, GatewayFrame::Busy { retry_after_ms });
            }
        }
        assert!(!bench.take_story().contains(&"stop".to_owned()));
    }
    bench.pass(400);
    assert_eq!(bench.take_story()[..2], ["forget", "stop"]);
    assert!(bench.core.view().is_empty());
}

#[test]
fn slow_answers_neither_stop_work_early_nor_stretch_it() {
    let (mut bench, _) = Bench::working();
    // Every answer takes nine seconds, for as long as five leases would last.
    let begun = bench.now;
    let mut open = std::collections::VecDeque::new();
    let mut last_confirmed = begun;
    while bench.now.millis_since(begun) < 300_000 {
        bench.pass(200);
        for said in bench.said() {
            if matches!(said.frame, AgentFrame::Progress { .. }) {
                open.push_back((bench.now, said));
            }
        }
        assert!(!bench.take_story().contains(&"stop".to_owned()));
        if open
            .front()
            .is_some_and(|(sent, _)| bench.now.millis_since(*sent) >= 9_000)
        {
            let (sent, said) = open.pop_front().unwrap();
            bench.confirm(&said);
            last_confirmed = sent;
        }
    }
    assert!(bench.now.millis_since(last_confirmed) < 30_000);
    bench.disconnect();
    bench.effects.clear();
    let over = last_confirmed.after_millis(58_000);
    while bench.now.after_millis(200) < over {
        bench.pass(200);
        assert!(bench.take_story().is_empty());
    }
    bench.pass(200);
    assert_eq!(bench.take_story(), ["forget", "stop"]);
}

#[test]
fn after_a_freeze_longer_than_the_lease_the_first_thing_is_to_stop() {
    let (mut bench, lease) = Bench::working();
    bench.freeze(90_000);
    assert_eq!(bench.story()[..2], ["forget", "stop"]);
    assert!(bench.said().iter().all(|said| said.frame.lease().is_none()));
    bench.effects.clear();
    bench.end_job(lease.attempt_id, JobOutcome::Stopped);
    assert!(bench.said().iter().all(|said| said.frame.lease().is_none()));
}

#[test]
fn a_result_that_is_ready_after_the_deadline_is_never_committed() {
    let (mut bench, lease) = Bench::working();
    bench.now = bench.now.after_millis(61_000);
    let uploaded = JobOutcome::Uploaded(super::super::testing::output());
    bench.end_job(lease.attempt_id, uploaded);
    assert_eq!(bench.story()[0], "forget");
    assert!(bench.said().iter().all(|said| said.frame.lease().is_none()));
}

#[test]
fn a_stop_directive_is_obeyed_and_confirmed_once_the_children_are_gone() {
    let (mut bench, lease) = Bench::working();
    bench.pass(20_200);
    bench.answer_progress(Directive::Stop);
    bench
        .effects
        .retain(|effect| !matches!(effect, Effect::Send(_)));
    assert_eq!(bench.take_story(), ["forget", "stop"]);
    bench.end_job(lease.attempt_id, JobOutcome::Stopped);
    assert_eq!(bench.take_story(), ["say stopped", "say pull"]);
}

#[test]
fn a_stop_for_another_epoch_is_ignored() {
    let (mut bench, mut lease) = Bench::working();
    lease.lease_epoch += 1;
    bench.hear(
        None,
        Some(lease),
        GatewayFrame::Cancel {
            reason: "revoked".to_owned(),
        },
    );
    assert!(bench.story().is_empty());
}

#[test]
fn a_cancel_for_an_attempt_that_nobody_knows_is_answered_with_stopped() {
    let mut bench = Bench::connected(1);
    bench.effects.clear();
    let lease = offer().lease();
    bench.hear(
        None,
        Some(lease),
        GatewayFrame::Cancel {
            reason: "buyer_cancelled".to_owned(),
        },
    );
    assert!(matches!(bench.last_said(), AgentFrame::Stopped { lease: said } if said == lease));
}

#[test]
fn a_refused_renewal_ends_the_work_without_a_word() {
    let (mut bench, lease) = Bench::working();
    bench.pass(20_200);
    let progress = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.refuse(&progress, Code::LeaseConflict, None);
    assert_eq!(bench.take_story(), ["forget", "stop"]);
    bench.end_job(lease.attempt_id, JobOutcome::Stopped);
    assert_eq!(bench.take_story(), ["say pull"]);
}

#[test]
fn a_busy_gateway_is_asked_again_and_a_standing_clock_moves_the_deadline() {
    let (mut bench, lease) = Bench::working();
    let before = bench.now.after_millis(58_000);
    bench.pass(20_200);
    let progress = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.refuse(&progress, Code::ClockRegressed, Some(2_000));
    let [Effect::MoveDeadline(attempt, stop_at)] = bench.effects[..] else {
        panic!("{:?}", bench.story())
    };
    assert_eq!(
        (attempt, stop_at),
        (lease.attempt_id, before.after_millis(2_000))
    );
    bench.effects.clear();
    bench.pass(1_800);
    assert!(bench.take_story().is_empty());
    bench.pass(400);
    assert_eq!(bench.take_story(), ["say progress"]);
}

#[test]
fn a_clock_that_stands_still_for_longer_than_a_lease_costs_no_work_and_stretches_no_lease() {
    let (mut bench, _) = Bench::working();
    let confirmed = bench.now;
    let mut stands_still = None;
    // The clock is behind by 70 seconds when the first renewal comes, and catches up.
    while stands_still.is_none_or(|(_, until)| bench.now < until) {
        bench.pass(200);
        for said in bench.said() {
            if matches!(said.frame, AgentFrame::Progress { .. }) {
                let until = bench.now.after_millis(70_000);
                let (_, until) = *stands_still.get_or_insert((bench.now, until));
                let by_ms = until.millis_since(bench.now);
                bench.refuse(&said, Code::ClockRegressed, Some(by_ms));
            }
        }
        assert!(!bench.take_story().contains(&"stop".to_owned()));
    }
    // Nobody answers any more: what was left of the lease is left of it now, and no more.
    let (since, until) = stands_still.expect("it was asked");
    bench.disconnect();
    bench.effects.clear();
    let over = confirmed.after_millis(58_000 + until.millis_since(since));
    while bench.now.after_millis(200) < over {
        bench.pass(200);
        assert!(bench.take_story().is_empty());
    }
    bench.pass(200);
    assert_eq!(bench.take_story(), ["forget", "stop"]);
}

#[test]
fn a_slot_is_taken_until_the_job_has_really_ended() {
    let (mut bench, lease) = Bench::working();
    bench.hear(
        None,
        Some(lease),
        GatewayFrame::Cancel {
            reason: "revoked".to_owned(),
        },
    );
    bench.pass(1_000);
    assert!(!bench.take_story().contains(&"say pull".to_owned()));
    bench.end_job(lease.attempt_id, JobOutcome::Stopped);
    assert!(bench.take_story().contains(&"say pull".to_owned()));
}

#[test]
fn no_work_is_followed_by_another_pull_but_not_in_a_loop() {
    let mut bench = Bench::connected(1);
    let pull = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.answer(&pull, GatewayFrame::NoWork);
    assert!(bench.story().is_empty());
    bench.pass(1_000);
    assert_eq!(bench.take_story(), ["say pull"]);
}

#[test]
fn silence_is_death_and_our_own_silence_is_broken() {
    let mut bench = Bench::connected(1);
    bench.effects.clear();
    bench.pass(44_800);
    assert_eq!(bench.take_story(), ["say heartbeat", "say heartbeat"]);
    bench.pass(200);
    assert!(bench.take_story().contains(&"reconnect".to_owned()));
}

#[test]
fn a_disabled_device_ends_the_agent_and_an_outdated_one_only_pulls_no_more() {
    let (mut bench, lease) = Bench::working();
    bench.hear(None, None, GatewayFrame::UpgradeRequired);
    assert_eq!(bench.take_story(), ["notice"]);
    bench.end_job(
        lease.attempt_id,
        JobOutcome::Uploaded(super::super::testing::output()),
    );
    assert_eq!(
        bench.take_story(),
        ["persist", "say progress", "say commit"]
    );
    bench.hear(None, None, GatewayFrame::Disabled);
    assert!(matches!(bench.effects[0], Effect::Exit(Farewell::Revoked)));
}
