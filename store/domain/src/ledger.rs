//! Money: integer micros (a millionth of the currency unit), moved between two accounts at a time.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a job costs; frozen when the job is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceTerms {
    /// For starting at all, in micros.
    pub base_micros: i64,
    /// For every started minute of output, in micros.
    pub per_minute_micros: i64,
    /// The provider's part of what is captured, in hundredths of a percent.
    pub provider_share_bps: i32,
}

impl PriceTerms {
    /// The price of an output of `seconds`, in micros; saturates instead of overflowing.
    pub fn price_micros(&self, seconds: f64) -> i64 {
        // A duration is never negative; NaN and infinities count as the largest there is.
        let minutes = (seconds.max(0.0) / 60.0).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "`as` saturates, which is meant"
        )]
        let minutes = if minutes.is_finite() {
            minutes as i64
        } else {
            i64::MAX
        };
        self.base_micros
            .saturating_add(self.per_minute_micros.saturating_mul(minutes))
    }

    /// What is held for a job whose output may be up to `max_output_seconds` long.
    pub fn hold_micros(&self, max_output_seconds: u32) -> i64 {
        self.price_micros(f64::from(max_output_seconds))
    }

    /// Splits a hold when an output of `seconds` is published. The parts add up to `held_micros`.
    pub fn settle(&self, held_micros: i64, seconds: f64) -> Settlement {
        let captured = self.price_micros(seconds).clamp(0, held_micros);
        let share = i128::from(captured) * i128::from(self.provider_share_bps) / 10_000;
        // A share is at most the whole (the terms are checked when they are configured).
        let provider = i64::try_from(share).unwrap_or(captured).clamp(0, captured);
        Settlement {
            provider_micros: provider,
            platform_micros: captured - provider,
            released_micros: held_micros - captured,
        }
    }
}

/// How a hold is divided up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// Credited to the provider.
    pub provider_micros: i64,
    /// Credited to the platform.
    pub platform_micros: i64,
    /// Given back to the org.
    pub released_micros: i64,
}

impl Settlement {
    /// Nothing is captured, all is given back.
    pub fn release(held_micros: i64) -> Self {
        Self {
            provider_micros: 0,
            platform_micros: 0,
            released_micros: held_micros,
        }
    }

    /// What the buyer pays.
    pub fn captured_micros(&self) -> i64 {
        self.provider_micros + self.platform_micros
    }
}

/// Why money moves on an org's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PostingKind {
    /// Credit is added.
    Credit,
    /// A job's price is held.
    Hold,
    /// The provider's part of a hold is captured.
    CaptureProvider,
    /// The platform's part of a hold is captured.
    CapturePlatform,
    /// The rest of a hold is given back.
    Release,
}

impl PostingKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Credit,
        Self::Hold,
        Self::CaptureProvider,
        Self::CapturePlatform,
        Self::Release,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Hold => "hold",
            Self::CaptureProvider => "capture_provider",
            Self::CapturePlatform => "capture_platform",
            Self::Release => "release",
        }
    }

    /// The kind of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// What an amount of it changes of the org's account: of what is available, and what is held.
    pub fn effect(self, micros: i64) -> (i64, i64) {
        match self {
            Self::Credit => (micros, 0),
            Self::Hold => (-micros, micros),
            Self::CaptureProvider | Self::CapturePlatform => (0, -micros),
            Self::Release => (micros, -micros),
        }
    }
}

/// The name of a movement, as in `hold_019adf00-0000-7000-8000-000000000001`: of each kind there is at
/// most one about a job, and a credit has the request that added it. A number would tell each org how much
/// all others move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingName {
    /// Why it moved.
    pub kind: PostingKind,
    /// The job that it is about, or the request that added credit.
    pub about: Uuid,
}

impl fmt::Display for PostingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.kind.as_str(), self.about)
    }
}

impl PostingName {
    /// The job that it is about; none of a credit.
    pub fn job(self) -> Option<Uuid> {
        (self.kind != PostingKind::Credit).then_some(self.about)
    }

    /// The name that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, about) = text.rsplit_once('_')?;
        Some(Self {
            kind: PostingKind::parse(kind)?,
            about: about.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: PriceTerms = PriceTerms {
        base_micros: 1_000,
        per_minute_micros: 500,
        provider_share_bps: 7_000,
    };

    #[test]
    fn every_kind_of_posting_is_read_back_and_moves_what_it_says() {
        let kinds = [
            ("credit", (7, 0)),
            ("hold", (-7, 7)),
            ("capture_provider", (0, -7)),
            ("capture_platform", (0, -7)),
            ("release", (7, -7)),
        ];
        for (kind, (word, effect)) in PostingKind::ALL.into_iter().zip(kinds) {
            assert_eq!(kind.as_str(), word);
            assert_eq!(PostingKind::parse(word), Some(kind));
            assert_eq!(kind.effect(7), effect, "{word}");
        }
        assert_eq!(PostingKind::parse("gift"), None);
    }

    #[test]
    fn a_movement_is_named_by_why_and_about_what_it_was() {
        let about = Uuid::from_u128(7);
        for kind in PostingKind::ALL {
            let name = PostingName { kind, about };
            assert_eq!(PostingName::parse(&name.to_string()), Some(name));
            assert_eq!(name.job().is_none(), kind == PostingKind::Credit);
        }
        for other in [
            "",
            "40",
            "hold",
            "hold_",
            "gift_00000000-0000-0000-0000-000000000007",
        ] {
            assert_eq!(PostingName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn every_started_minute_counts() {
        assert_eq!(TERMS.price_micros(0.0), 1_000);
        assert_eq!(TERMS.price_micros(0.1), 1_500);
        assert_eq!(TERMS.price_micros(60.0), 1_500);
        assert_eq!(TERMS.price_micros(60.1), 2_000);
    }

    #[test]
    fn a_hold_is_always_captured_and_released_to_the_last_micro() {
        for held in [0, 1, 999, 1_501, 6_000] {
            for seconds in [0.0, 1.0, 59.9, 61.0, 1e12, f64::INFINITY, f64::NAN] {
                let parts = TERMS.settle(held, seconds);
                assert_eq!(parts.captured_micros() + parts.released_micros, held);
                assert!(parts.provider_micros >= 0 && parts.platform_micros >= 0);
                assert!(parts.released_micros >= 0);
            }
        }
    }

    #[test]
    fn the_share_is_rounded_down() {
        let parts = TERMS.settle(1_501, 61.0);
        assert_eq!((parts.provider_micros, parts.platform_micros), (1_050, 451));
    }
}
