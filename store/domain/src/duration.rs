//! Durations that decide about leases: whole microseconds, never rounded.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::field::FieldError;

/// A length of time that a rule of the lease depends on: 1 µs to 24 h, in whole microseconds
/// (Postgres's resolution, so nothing is lost between the two).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseDuration(i64);

const MICROS_PER_SECOND: i64 = 1_000_000;
const MAX_MICROS: i64 = 24 * 3600 * MICROS_PER_SECOND;

impl LeaseDuration {
    /// A duration of whole microseconds, or what is wrong with it.
    pub fn from_micros(micros: i64) -> Result<Self, String> {
        if (1..=MAX_MICROS).contains(&micros) {
            Ok(Self(micros))
        } else {
            Err(format!(
                "must be at least 1us and at most 24h, got {micros}us"
            ))
        }
    }

    /// A duration of whole seconds that is known when the code is written.
    ///
    /// # Panics
    /// When the constant is out of range, which a test of the caller shows at once.
    pub const fn seconds(seconds: i64) -> Self {
        assert!(
            seconds >= 1 && seconds <= 24 * 3600,
            "a constant lease duration out of range"
        );
        Self(seconds * MICROS_PER_SECOND)
    }

    /// The length in microseconds.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// As a standard duration.
    pub fn std(self) -> Duration {
        Duration::from_micros(self.0.unsigned_abs())
    }

    /// As a signed duration that can be added to a point in time.
    pub fn signed(self) -> time::Duration {
        time::Duration::microseconds(self.0)
    }
}

impl TryFrom<Duration> for LeaseDuration {
    type Error = String;
    fn try_from(duration: Duration) -> Result<Self, Self::Error> {
        if !duration.subsec_nanos().is_multiple_of(1000) {
            return Err("must be whole microseconds".to_owned());
        }
        i64::try_from(duration.as_micros())
            .map_err(|_| "must be at most 24h".to_owned())
            .and_then(Self::from_micros)
    }
}

/// Reads `90s`, `250ms`, `1500us`, `15m` or `2h`: an integer and a unit, nothing else.
impl FromStr for LeaseDuration {
    type Err = FieldError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |problem: String| FieldError::new("duration", problem);
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => MICROS_PER_SECOND,
            "m" => 60 * MICROS_PER_SECOND,
            "h" => 3600 * MICROS_PER_SECOND,
            _ => {
                let hint = "write a whole number and one of us, ms, s, m, h, such as 60s";
                return Err(bad(format!("{hint}; got {text:?}")));
            }
        };
        let too_long = || bad(format!("must be at most 24h, got {text:?}"));
        let number: i64 = match number {
            "" => {
                return Err(bad(format!(
                    "a whole number must stand before the unit: {text:?}"
                )));
            }
            digits => digits.parse().map_err(|_| too_long())?,
        };
        let micros = number.checked_mul(scale).ok_or_else(too_long)?;
        Self::from_micros(micros).map_err(bad)
    }
}

impl fmt::Display for LeaseDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (3600 * MICROS_PER_SECOND, "h"),
            (60 * MICROS_PER_SECOND, "m"),
        ];
        let small = [(MICROS_PER_SECOND, "s"), (1_000, "ms"), (1, "us")];
        let (scale, unit) = units
            .into_iter()
            .chain(small)
            .find(|(scale, _)| self.0 % scale == 0)
            .unwrap_or((1, "us"));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

impl<'de> serde::Deserialize<'de> for LeaseDuration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error: FieldError| serde::de::Error::custom(error.problem))
    }
}

impl serde::Serialize for LeaseDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_written_back() {
        for text in ["1us", "250ms", "45s", "15m", "24h"] {
            assert_eq!(text.parse::<LeaseDuration>().unwrap().to_string(), text);
        }
        assert_eq!(
            "90000ms".parse::<LeaseDuration>().unwrap().to_string(),
            "90s"
        );
    }

    #[test]
    fn zero_fractions_negatives_overflow_and_missing_units_are_refused() {
        for text in [
            "0s",
            "-1s",
            "1.5s",
            "25h",
            "86401s",
            "99999999999999999999s",
            "60",
            "s",
            "",
        ] {
            assert!(
                text.parse::<LeaseDuration>().is_err(),
                "{text} was accepted"
            );
        }
    }

    #[test]
    fn nothing_is_rounded() {
        assert!(LeaseDuration::try_from(Duration::from_nanos(1_500)).is_err());
        assert_eq!(
            LeaseDuration::try_from(Duration::from_micros(1))
                .unwrap()
                .micros(),
            1
        );
    }
}
