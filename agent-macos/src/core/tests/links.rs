use fencepost_protocol::{AgentFrame, Code, GatewayFrame};

use super::super::testing::{Bench, offer};
use super::super::{Effect, FreshLink, LinkAnswer, Wanted};

fn wish(bench: &mut Bench, attempt: fencepost_domain::ids::AttemptId) {
    let what = Wanted {
        name: "source".to_owned(),
        direction: "get",
        first_part: None,
    };
    bench.core.on_link_wanted(attempt, what, bench.now);
    bench.pass(0);
}

fn answer(bench: &mut Bench) -> LinkAnswer {
    match bench.effects.pop() {
        Some(Effect::GiveLink(_, answer)) => answer,
        _ => panic!("{:?}", bench.story()),
    }
}

#[test]
fn a_fresh_link_is_asked_for_under_the_lease_and_given_to_the_job() {
    let (mut bench, lease) = Bench::working();
    wish(&mut bench, lease.attempt_id);
    let AgentFrame::Grant {
        lease: said,
        name,
        direction,
        first_part: None,
    } = bench.last_said()
    else {
        panic!("{:?}", bench.story())
    };
    assert_eq!((said, &*name, &*direction), (lease, "source", "get"));
    let (url, object_key) = ("/fresh".to_owned(), "key".to_owned());
    bench.answer_last(GatewayFrame::Granted {
        url: url.clone(),
        object_key: object_key.clone(),
        parts: None,
    });
    let fresh = LinkAnswer::Fresh(FreshLink {
        url,
        object_key,
        parts: None,
    });
    assert_eq!(answer(&mut bench), fresh);
}

#[test]
fn what_cannot_be_asked_now_is_told_so_and_what_does_not_exist_is_refused() {
    let (mut bench, lease) = Bench::working();
    for (code, expected) in [
        (Code::Busy, LinkAnswer::NotNow),
        (Code::InvalidRequest, LinkAnswer::Refused),
    ] {
        wish(&mut bench, lease.attempt_id);
        let said = bench.said().pop().unwrap();
        bench.refuse(&said, code, Some(1_000));
        assert_eq!(answer(&mut bench), expected);
    }
    bench.disconnect();
    wish(&mut bench, lease.attempt_id);
    assert_eq!(answer(&mut bench), LinkAnswer::NotNow);
    wish(&mut bench, offer().attempt_id);
    assert_eq!(answer(&mut bench), LinkAnswer::NotNow);
}

#[test]
fn a_link_refused_because_the_lease_is_lost_ends_the_work() {
    let (mut bench, lease) = Bench::working();
    wish(&mut bench, lease.attempt_id);
    let said = bench.said().pop().unwrap();
    bench.effects.clear();
    bench.refuse(&said, Code::LeaseConflict, None);
    assert_eq!(bench.take_story(), ["forget", "stop"]);
}
