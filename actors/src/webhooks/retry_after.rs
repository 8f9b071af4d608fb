//! `Retry-After`: a number of seconds, or a time of day.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// How long the header asks us to wait, as of `now`; `None` if it cannot be understood.
pub(super) fn parse(header: &str, now: OffsetDateTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = OffsetDateTime::parse(header, &Rfc2822).ok()?;
    // What is over already asks for nothing.
    Some(Duration::try_from(at - now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn seconds_and_dates_are_understood_and_the_rest_is_not() {
        let now = datetime!(2026-11-30 07:28:00 UTC);
        let wait = |header: &str| parse(header, now).map(|wait| wait.as_secs());
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait(" 0 "), Some(0));
        assert_eq!(wait("Mon, 30 Nov 2026 07:29:30 GMT"), Some(90));
        assert_eq!(wait("Mon, 30 Nov 2026 07:00:00 GMT"), Some(0));
        for odd in ["", "-1", "1.5", "soon", "99999999999999999999999"] {
            assert_eq!(wait(odd), None, "{odd}");
        }
    }
}
