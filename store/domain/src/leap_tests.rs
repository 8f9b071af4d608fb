use super::*;
use time::Duration as Span;
use time::macros::datetime;

const NOW: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);
const TTL: Span = Span::MINUTE;

/// What a watch makes of readings, each `(clock, own clock)` in seconds.
fn leaps(readings: &[(i64, u64)]) -> Vec<Option<(i64, i64)>> {
    let mut watch = LeapWatch::default();
    let seconds = |at: OffsetDateTime| (at - NOW).whole_seconds();
    let ttl = LeaseDuration::from_micros(60_000_000).unwrap();
    let observed = readings.iter().map(|&(clock, own)| {
        let own = Duration::from_secs(1_000 + own);
        let looked = Looked {
            before: own,
            after: own,
        };
        watch.observe(NOW + Span::seconds(clock), looked, ttl)
    });
    let leaps = observed.map(|leap| leap.map(|leap| (seconds(leap.from), seconds(leap.to))));
    leaps.collect()
}

#[test]
fn clocks_that_go_together_do_not_leap_however_long_nobody_looked() {
    assert_eq!(leaps(&[(0, 0), (1, 1), (600, 600)]), [None, None, None]);
}

#[test]
fn a_clock_that_is_put_right_by_a_little_has_not_leapt() {
    assert_eq!(leaps(&[(0, 0), (6, 1)]), [None, None]);
    assert_eq!(leaps(&[(0, 0), (7, 1)]), [None, Some((0, 67))]);
}

#[test]
fn a_leap_lasts_until_the_last_lease_from_before_it_has_ended() {
    let leap = Some((1, 151));
    assert_eq!(
        leaps(&[(0, 0), (1, 1), (91, 1), (92, 2), (151, 61), (152, 62)]),
        [None, None, leap, leap, leap, None]
    );
}

#[test]
fn a_clock_that_comes_back_takes_its_leap_with_it() {
    assert_eq!(leaps(&[(1, 1), (91, 1), (0, 2)])[2], None);
}

#[test]
fn a_clock_that_comes_back_later_leaves_no_more_of_its_leap_than_one_lease() {
    let years = 2 * 365 * 24 * 3_600;
    assert_eq!(
        leaps(&[
            (0, 0),
            (1, 1),
            (years, 2),
            (4, 4),
            (5, 5),
            (64, 64),
            (65, 65)
        ]),
        [
            None,
            None,
            Some((1, years + 60)),
            Some((1, 64)),
            Some((1, 64)),
            Some((1, 64)),
            None
        ]
    );
}

#[test]
fn a_slow_answer_is_no_leap() {
    let at = Duration::from_secs;
    let ttl = LeaseDuration::from_micros(60_000_000).unwrap();
    let mut watch = LeapWatch::default();
    let looked = |before, after| Looked {
        before: at(before),
        after: at(after),
    };
    // Read at second 1, answered at 31; read again at 32.
    assert_eq!(watch.observe(NOW, looked(1, 31), ttl), None);
    let next = NOW + TTL / 2;
    assert_eq!(watch.observe(next, looked(31, 32), ttl), None);
}
