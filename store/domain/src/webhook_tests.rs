//! The retry table, and when an endpoint is given up.

use time::macros::datetime;

use super::*;

const START: OffsetDateTime = datetime!(2026-11-30 00:00 UTC);

#[test]
fn the_table_is_walked_to_its_end_and_chance_adds_at_most_a_tenth() {
    let seconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];
    for (tries, expected) in (1..).zip(seconds) {
        let expected = Duration::from_secs(expected);
        assert_eq!(retry_after(tries, 0), Some(expected));
        for chance in [1, 100, 101, 999, u64::MAX] {
            let wait = retry_after(tries, chance).unwrap();
            assert!(
                wait >= expected && wait <= expected * 11 / 10,
                "{tries}: {wait:?}"
            );
        }
        assert_eq!(retry_after(tries, 100), Some(expected * 11 / 10));
    }
    assert_eq!(retry_after(8, 0), None);
    assert_eq!(retry_after(0, 0), None);
}

#[test]
fn the_longest_times_are_those_that_buyers_are_told() {
    assert_eq!(LONGEST_WAIT, Duration::from_hours(24));
    assert_eq!(LONGEST_REST, Duration::from_hours(1));
    assert_eq!(GIVE_UP_AFTER, Duration::from_hours(120));
}

#[test]
fn only_answers_of_success_deliver_and_only_gone_means_gone() {
    let plain = Verdict::Failed {
        wait: None,
        rest: None,
    };
    for status in [200, 201, 202, 204, 299] {
        assert_eq!(judge(Some(status), None), Verdict::Accepted, "{status}");
    }
    for status in [
        100, 199, 300, 301, 302, 307, 308, 400, 401, 404, 409, 418, 500, 502, 503, 599,
    ] {
        assert_eq!(judge(Some(status), None), plain, "{status}");
    }
    assert_eq!(judge(None, None), plain);
    assert_eq!(judge(Some(410), None), Verdict::Gone);
}

#[test]
fn an_endpoint_may_ask_for_patience_within_bounds() {
    let asked = Duration::from_mins(2);
    let both = Verdict::Failed {
        wait: Some(asked),
        rest: Some(asked),
    };
    assert_eq!(judge(Some(429), Some(asked)), both);
    assert_eq!(judge(Some(503), Some(asked)), both);
    let wait_alone = Verdict::Failed {
        wait: Some(asked),
        rest: None,
    };
    assert_eq!(judge(Some(500), Some(asked)), wait_alone);
    let unsaid = Verdict::Failed {
        wait: None,
        rest: Some(REST),
    };
    assert_eq!(judge(Some(429), None), unsaid);
    let bounded = Verdict::Failed {
        wait: Some(LONGEST_WAIT),
        rest: Some(LONGEST_REST),
    };
    assert_eq!(
        judge(Some(429), Some(Duration::from_secs(u64::MAX))),
        bounded
    );
}

fn failures(hours: &[i64]) -> Failing {
    let at = |hours: &i64| START + time::Duration::hours(*hours);
    let failing = hours.iter().fold(None, |before, hours| {
        Some(Failing::again(before, at(hours)))
    });
    failing.unwrap()
}

#[test]
fn one_event_that_fails_to_its_end_gives_up_no_endpoint() {
    // As the table has it, and then silence, and then another failure days later.
    let one = [0, 0, 0, 1, 3, 8, 18, 28];
    assert!(!failures(&one).is_hopeless());
    let later: Vec<i64> = one.into_iter().chain([200]).collect();
    let failing = failures(&later);
    assert!(!failing.is_hopeless());
    assert_eq!(failing.since, START + time::Duration::hours(200));
}

#[test]
fn failures_all_through_the_window_do() {
    let through: Vec<i64> = (0..=12).map(|n| n * 10).collect();
    assert!(failures(&through).is_hopeless());
    assert!(!failures(&through[..12]).is_hopeless());
}

#[test]
fn every_word_is_read_again() {
    for kind in EventType::ALL {
        assert_eq!(EventType::parse(kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    assert_eq!(EventType::parse("job.queued"), None);
}
