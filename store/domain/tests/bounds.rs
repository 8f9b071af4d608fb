//! Rules at the very edge where they begin or end.

use std::time::Duration;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ending::{Back, Cause, JobFacts, JobNext, MAX_RETURNED_OFFERS, decide};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::Operation;
use fencepost_domain::job::JobStatus;
use fencepost_domain::ledger::{PriceTerms, Settlement};
use fencepost_domain::service::TranscodeParams;
use fencepost_domain::text::clean;
use serde_json::{Value, json};
use time::OffsetDateTime;

const NOW: OffsetDateTime = time::macros::datetime!(2026-01-01 12:00 UTC);

fn job() -> JobFacts {
    JobFacts {
        status: JobStatus::Active,
        max_attempts: 3,
        charged_attempts: 0,
        returned_offers: 0,
        returned_widely: false,
        admission_deadline: NOW + time::Duration::HOUR,
    }
}

#[test]
fn a_day_is_the_longest_duration_and_a_microsecond_the_shortest() {
    let day = 86_400_000_000;
    assert_eq!(LeaseDuration::from_micros(day).unwrap().micros(), day);
    assert!(LeaseDuration::from_micros(day + 1).is_err());
    assert_eq!(LeaseDuration::from_micros(1).unwrap().micros(), 1);
    assert!(LeaseDuration::from_micros(0).is_err());
}

#[test]
fn every_unit_has_its_length() {
    for (text, micros) in [
        ("3us", 3),
        ("3ms", 3_000),
        ("3s", 3_000_000),
        ("3m", 180_000_000),
        ("3h", 10_800_000_000),
    ] {
        let duration: LeaseDuration = text.parse().unwrap();
        assert_eq!(duration.micros(), micros);
        assert_eq!(duration.to_string(), text);
    }
}

#[test]
fn a_duration_is_the_same_in_all_its_forms() {
    let duration = LeaseDuration::seconds(90);
    assert_eq!(duration.micros(), 90_000_000);
    assert_eq!(duration.std(), Duration::from_secs(90));
    assert_eq!(duration.signed(), time::Duration::seconds(90));
    assert_eq!(LeaseDuration::try_from(duration.std()), Ok(duration));
    assert_eq!(json!(duration), json!("90s"));
    let read: LeaseDuration = serde_json::from_value(json!("90s")).unwrap();
    assert_eq!(read, duration);
    assert!(serde_json::from_value::<LeaseDuration>(json!("90")).is_err());
}

#[test]
fn only_what_we_do_over_the_agents_head_is_forced() {
    for status in [JobStatus::Active, JobStatus::Cancelling] {
        let forced = |cause| decide(&JobFacts { status, ..job() }, cause, NOW).forced;
        assert!(
            forced(Cause::Revoked) && forced(Cause::CancelForced) && forced(Cause::ClockAccepted)
        );
        for cause in [
            Cause::Expired,
            Cause::Returned,
            Cause::Stopped,
            Cause::Verified,
        ] {
            assert!(!forced(cause), "{cause:?}");
        }
    }
}

#[test]
fn a_loss_says_how_the_device_was_lost() {
    let code = |cause| decide(&job(), cause, NOW).code;
    assert_eq!(code(Cause::Expired), Some(FailureCode::LeaseExpired));
    for cause in [Cause::Forgotten, Cause::ResumeBound, Cause::Stopped] {
        assert_eq!(code(cause), Some(FailureCode::ProviderOffline));
    }
    let cancelling = JobFacts {
        status: JobStatus::Cancelling,
        ..job()
    };
    let ending = decide(&cancelling, Cause::Expired, NOW);
    assert_eq!(ending.code, Some(FailureCode::BuyerCancelled));
}

#[test]
fn returns_wait_longer_and_longer_and_what_is_nobodys_fault_does_not_wait() {
    let delay = |returned_offers, cause| {
        let job = JobFacts {
            returned_offers,
            ..job()
        };
        match decide(&job, cause, NOW).job {
            JobNext::Queued { delay } => delay.as_secs(),
            other => panic!("not requeued: {other:?}"),
        }
    };
    assert_eq!(
        [0, 1, 2, 12].map(|n| delay(n, Cause::Returned)),
        [1, 2, 4, 300]
    );
    for cause in [
        Cause::Revoked,
        Cause::CancelForced,
        Cause::ExpiredInOutage,
        Cause::ClockAccepted,
    ] {
        assert_eq!(delay(3, cause), 0, "{cause:?}");
    }
}

#[test]
fn only_a_returned_offer_counts_as_one_and_makes_a_job_undeliverable() {
    let job = JobFacts {
        returned_offers: MAX_RETURNED_OFFERS - 1,
        returned_widely: true,
        ..job()
    };
    assert_eq!(decide(&job, Cause::Returned, NOW).back, Some(Back::Offer));
    for cause in [Cause::Released, Cause::Undelivered, Cause::Revoked] {
        let ending = decide(&job, cause, NOW);
        assert_ne!(ending.back, Some(Back::Offer), "{cause:?}");
        assert!(matches!(ending.job, JobNext::Queued { .. }), "{cause:?}");
    }
    let one_less = JobFacts {
        returned_offers: MAX_RETURNED_OFFERS - 2,
        ..job
    };
    let ending = decide(&one_less, Cause::Returned, NOW);
    assert!(matches!(ending.job, JobNext::Queued { .. }));
}

#[test]
fn at_its_deadline_a_job_is_not_queued_again() {
    let job = JobFacts {
        admission_deadline: NOW,
        ..job()
    };
    for cause in [Cause::Returned, Cause::Expired, Cause::Revoked] {
        let ending = decide(&job, cause, NOW);
        let expected = JobNext::Failed(FailureCode::DeadlineExceeded);
        assert_eq!(ending.job, expected, "{cause:?}");
    }
}

#[test]
fn what_ends_or_publishes_needs_the_token() {
    for operation in [Operation::Commit, Operation::Fail, Operation::Release] {
        assert!(operation.needs_token());
    }
    assert!(!Operation::Progress.needs_token() && !Operation::Grant.needs_token());
}

#[test]
fn a_hold_is_the_price_of_the_longest_output_and_can_be_given_back_whole() {
    let terms = PriceTerms {
        base_micros: 1_000,
        per_minute_micros: 500,
        provider_share_bps: 7_000,
    };
    assert_eq!(terms.hold_micros(600), 6_000);
    assert_eq!(terms.price_micros(f64::NAN), 1_000);
    assert_eq!(terms.price_micros(f64::INFINITY), i64::MAX);
    let parts = Settlement::release(6_000);
    assert_eq!((parts.captured_micros(), parts.released_micros), (0, 6_000));
    let parts = terms.settle(6_000, 61.0);
    assert_eq!(
        (parts.captured_micros(), parts.released_micros),
        (2_000, 4_000)
    );
}

#[test]
fn text_is_cut_only_if_it_and_an_ellipsis_do_not_fit() {
    assert_eq!(clean("abc", 6), "abc");
    assert_eq!(clean("abcd", 6), "abc…");
    assert_eq!(clean("éab", 6), "éa…");
    assert_eq!(clean("a\tb", 20), "a\tb");
}

fn field_refused(params: &Value) -> Option<String> {
    TranscodeParams::parse(params)
        .err()
        .map(|error| error.field)
}

#[test]
fn pictures_are_even_and_within_their_bounds_inclusive() {
    for (width, height) in [(2, 2), (4096, 2160), (1920, 1080)] {
        let params = json!({"codec": "h264", "width": width, "height": height});
        assert_eq!(field_refused(&params), None, "{params}");
    }
    for height in [0, 1, 3, 2161, 2162, 4000] {
        let params = json!({"codec": "h264", "height": height});
        assert_eq!(
            field_refused(&params).as_deref(),
            Some("height"),
            "{params}"
        );
    }
}

#[test]
fn rates_and_quality_are_within_their_bounds_inclusive() {
    for good in [
        json!({"codec": "h264", "fps": 1}),
        json!({"codec": "h264", "fps": 120}),
        json!({"codec": "hevc", "crf": 51}),
        json!({"codec": "vp9", "crf": 0}),
        json!({"codec": "vp9", "bitrate_kbps": 50}),
        json!({"codec": "vp9", "bitrate_kbps": 200_000}),
        json!({"codec": "prores"}),
        json!({"codec": "prores", "hardware": "require"}),
        json!({"codec": "vp9", "hardware": "never"}),
    ] {
        assert_eq!(field_refused(&good), None, "{good}");
    }
    for (bad, field) in [
        (json!({"codec": "h264", "fps": 0.5}), "fps"),
        (json!({"codec": "h264", "fps": 121}), "fps"),
        (json!({"codec": "h264", "crf": 52}), "crf"),
        (json!({"codec": "h264", "bitrate_kbps": 49}), "bitrate_kbps"),
        (
            json!({"codec": "h264", "bitrate_kbps": 200_001}),
            "bitrate_kbps",
        ),
        (json!({"codec": "prores", "crf": 10}), "crf"),
        (
            json!({"codec": "prores", "bitrate_kbps": 900}),
            "bitrate_kbps",
        ),
        (json!({"codec": "vp9", "hardware": "require"}), "hardware"),
    ] {
        assert_eq!(field_refused(&bad).as_deref(), Some(field), "{bad}");
    }
}
