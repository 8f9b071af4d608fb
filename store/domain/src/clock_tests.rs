use super::*;
use time::Duration as Span;
use time::macros::datetime;

const NOW: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);

fn own(seconds: u64) -> Duration {
    Duration::from_secs(1_000 + seconds)
}

/// The clock at `now`, whose mark is one second old.
fn fresh(now: OffsetDateTime) -> ClockReading {
    ClockReading {
        now,
        mark: now - Span::SECOND,
    }
}

/// A watch that has seen the clock at [`NOW`], where its own showed `own(0)`.
fn watch() -> ClockWatch {
    let mut watch = ClockWatch::default();
    assert_eq!(watch.observe(fresh(NOW), own(0)), ClockState::Trusted);
    watch
}

#[test]
fn a_clock_is_behind_by_a_microsecond_or_not_at_all() {
    let reading = |micros| ClockReading {
        now: NOW,
        mark: NOW + Span::microseconds(micros),
    };
    assert_eq!(reading(0).regressed_by(), None);
    assert_eq!(reading(-1).regressed_by(), None);
    assert_eq!(reading(1).regressed_by(), Some(Duration::from_micros(1)));
    assert_eq!(
        reading(70_000_000).regressed_by(),
        Some(Duration::from_secs(70))
    );
}

#[test]
fn a_minute_apart_is_believed_and_a_microsecond_more_is_not() {
    let after = |apart| {
        let now = NOW + Span::seconds(10) + apart;
        let reading = ClockReading { now, mark: NOW };
        watch().observe(reading, own(10))
    };
    assert_eq!(after(Span::ZERO), ClockState::Trusted);
    assert_eq!(after(Span::MINUTE), ClockState::Trusted);
    let more = Span::MINUTE + Span::MICROSECOND;
    let by = Duration::from_micros(60_000_001);
    assert_eq!(after(more), ClockState::Ahead(by));
}

#[test]
fn a_clock_that_leaps_two_years_ahead_and_comes_back_was_ahead_for_as_long_as_it_was() {
    let mut watch = watch();
    let years = Span::days(730);
    for second in 1..=100 {
        let now = NOW + years + Span::seconds(second);
        let reading = ClockReading { now, mark: NOW };
        let state = watch.observe(reading, own(second.unsigned_abs()));
        assert!(matches!(state, ClockState::Ahead(_)), "{state:?}");
    }
    let back = ClockReading {
        now: NOW + Span::seconds(101),
        mark: NOW,
    };
    assert_eq!(watch.observe(back, own(101)), ClockState::Trusted);
}

#[test]
fn a_leap_that_somebody_vouches_for_is_believed() {
    let mut watch = watch();
    let leapt = NOW + Span::days(730);
    assert_eq!(watch.observe(fresh(leapt), own(1)), ClockState::Trusted);
    let next = ClockReading {
        now: leapt + Span::minutes(5),
        mark: leapt,
    };
    assert_eq!(watch.observe(next, own(301)), ClockState::Trusted);
}

#[test]
fn a_clock_that_went_back_is_behind_until_it_has_caught_up_and_is_believed_from_then_on() {
    let mut watch = watch();
    let mark = NOW;
    let standby = |second: u64| {
        let second = i64::try_from(second).unwrap();
        ClockReading {
            now: NOW + Span::seconds(second - 70),
            mark,
        }
    };
    for second in [1, 30, 69] {
        let by = Duration::from_secs(70 - second);
        assert_eq!(
            watch.observe(standby(second), own(second)),
            ClockState::Behind(by)
        );
    }
    for second in [70, 71, 600] {
        assert_eq!(
            watch.observe(standby(second), own(second)),
            ClockState::Trusted,
            "{second}"
        );
    }
    // And it is watched as before.
    let leapt = ClockReading {
        now: NOW + Span::minutes(20),
        mark: NOW + Span::minutes(8),
    };
    assert!(matches!(
        watch.observe(leapt, own(601)),
        ClockState::Ahead(_)
    ));
}

#[test]
fn slow_drift_is_followed_for_weeks() {
    let mut watch = watch();
    for hour in 1..=24 * 60 {
        // 100 parts in a million, which is 8.6 seconds a day.
        let real = Span::hours(hour);
        let now = NOW + real + real / 10_000;
        let state = watch.observe(fresh(now), own(3_600 * hour.unsigned_abs()));
        assert_eq!(state, ClockState::Trusted, "after {hour} hours");
    }
}

#[test]
fn a_leap_in_steps_of_less_than_a_minute_is_a_leap() {
    let mut watch = watch();
    let states: Vec<_> = (1..=5)
        .map(|step| {
            // The mark is where this watch has put it.
            let now = NOW + Span::seconds(40 * step);
            let mark = NOW + Span::seconds(40 * (step - 1).min(1));
            watch.observe(ClockReading { now, mark }, own(step.unsigned_abs()))
        })
        .collect();
    assert_eq!(states[0], ClockState::Trusted);
    assert!(matches!(states[4], ClockState::Ahead(_)), "{states:?}");
}

#[test]
fn a_mark_that_somebody_moved_a_little_vouches_for_no_leap() {
    let reading = ClockReading {
        now: NOW + Span::days(730),
        mark: NOW + Span::SECOND,
    };
    let state = watch().observe(reading, own(1));
    assert!(matches!(state, ClockState::Ahead(_)), "{state:?}");
}

#[test]
fn a_leap_of_just_a_minute_is_not_followed() {
    let mut watch = watch();
    let at = |seconds| ClockReading {
        now: NOW + Span::seconds(seconds),
        mark: NOW,
    };
    assert_eq!(watch.observe(at(60), own(0)), ClockState::Trusted);
    let state = watch.observe(at(90), own(0));
    assert!(matches!(state, ClockState::Ahead(_)), "{state:?}");
}

#[test]
fn a_slow_clock_leaves_no_room_for_a_leap() {
    let mut watch = watch();
    let mut now = NOW;
    for hour in 1..=10 {
        now = NOW + Span::hours(hour) - Span::hours(hour) / 10_000;
        let state = watch.observe(fresh(now), own(3_600 * hour.unsigned_abs()));
        assert_eq!(state, ClockState::Trusted, "after {hour} hours");
    }
    let leapt = ClockReading {
        now: now + Span::seconds(62),
        mark: now,
    };
    let state = watch.observe(leapt, own(36_001));
    assert!(matches!(state, ClockState::Ahead(_)), "{state:?}");
}
