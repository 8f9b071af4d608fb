use fencepost_protocol::{AgentFrame, GatewayFrame, InputGrant, LeaseOffer};

use super::super::testing::{Bench, offer};
use super::super::{JobOutcome, Room};

const MIB: u64 = 1 << 20;

fn room(free_mib: u64) -> Room {
    Room {
        free_bytes: Some(free_mib * MIB),
        ..Room::default()
    }
}

/// Needs 46 MiB: three times its input and 16.
fn offer_of_ten_mib() -> LeaseOffer {
    let input = InputGrant {
        name: "source".to_owned(),
        url: "/in".to_owned(),
        sha256: Some("00".repeat(32)),
        size_bytes: Some(10 * MIB),
        max_bytes: None,
    };
    LeaseOffer {
        inputs: vec![input],
        ..offer()
    }
}

fn see(bench: &mut Bench, room: Room) {
    bench.core.on_room(room, bench.now);
    bench.pass(0);
}

fn declined(bench: &Bench) -> bool {
    matches!(&bench.last_said(), AgentFrame::OfferDecline { reason, .. }
        if reason.starts_with("no capacity"))
}

#[test]
fn an_offer_that_does_not_fit_is_declined_and_no_other_asked_for_until_it_would() {
    let mut bench = Bench::connected(2);
    see(&mut bench, room(45));
    bench.offer(offer_of_ten_mib());
    assert!(declined(&bench), "{:?}", bench.story());
    bench.effects.clear();
    assert!(bench.core.is_short_of_room());
    see(&mut bench, room(45));
    bench.pass(10_000);
    assert!(!bench.take_story().contains(&"say pull".to_owned()));
    see(&mut bench, room(46));
    assert_eq!(bench.take_story(), ["say pull"]);
    bench.offer(offer_of_ten_mib());
    assert!(bench.take_story().contains(&"say offer_accept".to_owned()));
}

#[test]
fn of_a_bundle_only_the_manifests_size_is_known() {
    let mut offer = offer_of_ten_mib();
    offer.service = "remotion.render.v1".to_owned();
    "bundle".clone_into(&mut offer.inputs[0].name);
    offer.inputs[0].size_bytes = Some(1);
    offer.inputs[0].max_bytes = Some(10 * MIB);
    let mut bench = Bench::connected(2);
    see(&mut bench, room(45));
    bench.offer(offer.clone());
    assert!(declined(&bench), "{:?}", bench.story());
    // Of an input of that name of another service it is the whole.
    let mut bench = Bench::connected(2);
    see(&mut bench, room(45));
    offer.service = "transcode.v1".to_owned();
    bench.offer(offer);
    assert!(!declined(&bench), "{:?}", bench.story());
}

#[test]
fn an_input_of_unknown_size_needs_room_for_a_guess_and_for_no_more_than_may_come() {
    let of = |max_bytes| {
        let mut offer = offer_of_ten_mib();
        offer.inputs[0].size_bytes = None;
        offer.inputs[0].max_bytes = Some(max_bytes);
        offer
    };
    // Three times 2 MiB and 16, then three times 512 MiB and 16.
    for (max_bytes, needed) in [(2 * MIB, 22), (1 << 40, 1_552)] {
        let mut bench = Bench::connected(2);
        see(&mut bench, room(needed - 1));
        bench.offer(of(max_bytes));
        assert!(declined(&bench), "{:?}", bench.story());
        let mut bench = Bench::connected(2);
        see(&mut bench, room(needed));
        bench.offer(of(max_bytes));
        assert!(bench.story().contains(&"say offer_accept".to_owned()));
    }
}

#[test]
fn a_job_that_is_too_large_for_this_machine_does_not_keep_it_idle_for_ever() {
    let mut bench = Bench::connected(1);
    see(&mut bench, room(45));
    bench.offer(offer_of_ten_mib());
    bench.pass(5 * 60_000 - 200);
    bench.effects.clear();
    see(&mut bench, room(45));
    assert!(bench.take_story().is_empty());
    bench.pass(400);
    bench.effects.clear();
    see(&mut bench, room(45));
    assert_eq!(bench.take_story(), ["say pull"]);
}

#[test]
fn room_that_running_work_has_not_used_yet_is_not_given_away() {
    let mut bench = Bench::connected(2);
    see(&mut bench, room(80));
    bench.offer(offer_of_ten_mib());
    bench.offer(offer_of_ten_mib());
    assert!(declined(&bench), "{:?}", bench.story());
    // The first has written 40 of its 46 MiB, so 34 more were needed in the first place.
    let half_way = Room {
        used_bytes: 40 * MIB,
        ..room(51)
    };
    see(&mut bench, half_way);
    assert!(bench.core.is_short_of_room());
    see(
        &mut bench,
        Room {
            free_bytes: Some(52 * MIB),
            ..half_way
        },
    );
    assert!(!bench.core.is_short_of_room());
}

#[test]
fn a_disk_that_filled_up_at_work_must_have_more_room_than_it_has() {
    let (mut bench, lease) = Bench::working();
    see(&mut bench, room(60));
    let message = "the input cannot be kept: No space left on device (os error 28)".to_owned();
    bench.end_job(
        lease.attempt_id,
        JobOutcome::Failed {
            code: "device_fault",
            message,
        },
    );
    assert_eq!(bench.story(), ["persist", "say fail"]);
    bench.answer_last(GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: None,
    });
    bench.effects.clear();
    see(&mut bench, room(60));
    assert!(!bench.take_story().contains(&"say pull".to_owned()));
    see(&mut bench, room(76));
    assert_eq!(bench.take_story(), ["say pull"]);
}

#[test]
fn while_earlier_work_cannot_be_ended_nothing_is_asked_for_or_taken() {
    let mut bench = Bench::connected(1);
    let strays = Room {
        strays: 1,
        ..room(1_000)
    };
    see(&mut bench, strays);
    bench.effects.clear();
    bench.offer(offer());
    assert!(declined(&bench), "{:?}", bench.story());
    bench.pass(10_000);
    assert_eq!(bench.take_story(), ["say offer_decline"]);
    see(&mut bench, room(1_000));
    assert_eq!(bench.take_story(), ["say pull"]);
}

#[test]
fn a_machine_that_does_not_know_its_free_space_works() {
    let mut bench = Bench::connected(1);
    see(&mut bench, Room::default());
    bench.offer(offer_of_ten_mib());
    assert!(bench.take_story().contains(&"say offer_accept".to_owned()));
}
