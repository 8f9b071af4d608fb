//! Times of captions, in milliseconds.

/// More than any film: what is later is a mistake.
const MOST_HOURS: u64 = 99;

/// `00:01:02,500`, `01:02.5` or `0:01:02.50` as milliseconds.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (whole, fraction) = match text.split_once([',', '.']) {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, "0"),
    };
    let parts: Vec<u64> = whole.split(':').map(number).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match *parts.as_slice() {
        [minutes, seconds] => (0, minutes, seconds),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    if hours > MOST_HOURS || minutes > 59 || seconds > 59 || fraction.len() > 3 {
        return None;
    }
    let thousandths = number(fraction)? * [1, 100, 10, 1][fraction.len()];
    Some(((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths)
}

/// Digits alone: no sign, no space.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The two times of `00:00:01,000 --> 00:00:02,000`, whatever follows them; or what is wrong.
pub(super) fn span(line: &str) -> Result<(u64, u64), String> {
    let wrong = || {
        "the times are not written like 00:00:01,000 --> 00:00:02,500, up to 99 hours".to_owned()
    };
    let (start, rest) = line.split_once("-->").ok_or_else(wrong)?;
    let end = rest.split_whitespace().next().ok_or_else(wrong)?;
    let start = parse(start.trim()).ok_or_else(wrong)?;
    let end = parse(end).ok_or_else(wrong)?;
    if end < start {
        return Err("the caption ends before it begins".to_owned());
    }
    Ok((start, end))
}

/// Seconds as milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range of days first"
)]
pub(super) fn milliseconds(seconds: f64) -> u64 {
    (seconds.clamp(0.0, 1e9) * 1000.0).round() as u64
}

/// Hours, minutes, seconds and milliseconds.
pub(super) fn split(milliseconds: u64) -> (u64, u64, u64, u64) {
    let seconds = milliseconds / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    (hours, minutes, seconds % 60, milliseconds % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them_and_nonsense_is_not() {
        assert_eq!(parse("01:02:03,456"), Some(3_723_456));
        assert_eq!(parse("02:03.4"), Some(123_400));
        assert_eq!(parse("0:00:01.05"), Some(1_050));
        assert_eq!(parse("00:00:07"), Some(7_000));
        for odd in [
            "",
            "1",
            "00:61:00",
            "00:00:61",
            "-1:00",
            "00:00:+1",
            "1:2:3:4",
            "00:00:01,",
            "٠٠:٠١",
            "00:00:01.0000",
            "100:00:00",
            "99999999999999999999:00:00",
        ] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_follows_the_times_is_not_part_of_them() {
        let settings = "00:01.000 --> 00:02.000 position:10% align:start";
        assert_eq!(span(settings), Ok((1_000, 2_000)));
        assert!(span("00:02.000 --> 00:01.000").is_err());
        assert!(span("00:02.000 -> 00:03.000").is_err());
    }
}
