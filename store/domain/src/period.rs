//! Spans of time that money is added up over. They are defined in UTC alone, so that no clock change
//! of anybody's makes one longer, shorter, or count twice.

use std::fmt;
use std::str::FromStr;

use time::{Date, Month, OffsetDateTime};

/// From an instant on, until before another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The first instant in it.
    pub from: OffsetDateTime,
    /// The first instant after it.
    pub until: OffsetDateTime,
}

/// A month of UTC, written `2026-11`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcMonth {
    year: i32,
    month: u8,
}

impl UtcMonth {
    /// The month that an instant lies in.
    pub fn of(instant: OffsetDateTime) -> Self {
        let date = instant.to_offset(time::UtcOffset::UTC).date();
        Self {
            year: date.year(),
            month: u8::from(date.month()),
        }
    }

    /// The month after it.
    #[must_use]
    pub fn next(self) -> Self {
        match self.month {
            12 => Self {
                year: self.year + 1,
                month: 1,
            },
            month => Self {
                year: self.year,
                month: month + 1,
            },
        }
    }

    /// All of it.
    pub fn period(self) -> Period {
        Period {
            from: self.first_instant(),
            until: self.next().first_instant(),
        }
    }

    fn first_instant(self) -> OffsetDateTime {
        let month = Month::try_from(self.month).unwrap_or(Month::January);
        // Years have four digits, and the last one's next is within what a date can be.
        let date = Date::from_calendar_date(self.year, month, 1).unwrap_or(Date::MIN);
        date.midnight().assume_utc()
    }
}

impl fmt::Display for UtcMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

/// Why a text is no month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a month of UTC such as 2026-11")]
pub struct NoMonth;

impl FromStr for UtcMonth {
    type Err = NoMonth;

    fn from_str(text: &str) -> Result<Self, NoMonth> {
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let (year, month) = text.split_once('-').ok_or(NoMonth)?;
        if (year.len(), month.len()) != (4, 2) || !digits(year) || !digits(month) {
            return Err(NoMonth);
        }
        let year = year.parse().map_err(|_| NoMonth)?;
        let month: u8 = month.parse().map_err(|_| NoMonth)?;
        // Before 1970 nobody had an account, and after 9998 the next month has five digits.
        if !(1970..=9998).contains(&year) || !(1..=12).contains(&month) {
            return Err(NoMonth);
        }
        Ok(Self { year, month })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_each_other_without_a_gap_and_without_meeting() {
        let mut month: UtcMonth = "2026-01".parse().unwrap();
        for _ in 0..36 {
            let period = month.period();
            assert_eq!(period.until, month.next().period().from);
            assert_eq!(UtcMonth::of(period.from), month);
            let last = period.until - time::Duration::MICROSECOND;
            assert_eq!(UtcMonth::of(last), month);
            // The same instant said with another offset lies in the same month.
            let berlin = time::UtcOffset::from_hms(2, 0, 0).unwrap();
            assert_eq!(UtcMonth::of(last.to_offset(berlin)), month);
            month = month.next();
        }
        assert_eq!(month.to_string(), "2029-01");
    }

    #[test]
    fn what_is_no_month_is_refused() {
        for text in [
            "", "2026", "2026-", "2026-+1", "2026-13", "2026-00", "26-01", "2026-1", "+026-01",
            "9999-12",
        ] {
            assert_eq!(text.parse::<UtcMonth>(), Err(NoMonth), "{text}");
        }
    }
}
