//! Amounts of money as people write them: `25`, `0.50`. Never through a floating-point number.

use fencepost_domain::field::FieldError;

const DIGITS: usize = 6;

/// Micros as currency units, with at least two decimals.
pub(super) fn show(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let magnitude = micros.unsigned_abs();
    let fraction = format!("{:06}", magnitude % 1_000_000);
    let kept = fraction.trim_end_matches('0').len().max(2);
    format!("{sign}{}.{}", magnitude / 1_000_000, &fraction[..kept])
}

/// Currency units as micros: positive, at most six decimals.
pub(super) fn parse(text: &str) -> Result<i64, FieldError> {
    let problem = "must be a positive amount with at most six decimals, such as 25 or 0.50";
    let refused = || FieldError::new("amount", problem);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > DIGITS {
        return Err(refused());
    }
    if text.ends_with('.') {
        return Err(refused());
    }
    let micros = format!("{whole}{fraction:0<DIGITS$}")
        .parse::<i64>()
        .map_err(|_| refused())?;
    if micros == 0 {
        return Err(refused());
    }
    Ok(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_to_the_last_micro() {
        for (text, micros) in [
            ("25", 25_000_000),
            ("0.5", 500_000),
            ("0.000001", 1),
            ("9223372036854.775807", i64::MAX),
        ] {
            assert_eq!(parse(text), Ok(micros), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_positive_amount_is_refused() {
        for text in [
            "",
            "0",
            "0.0",
            "-1",
            "+1",
            "1e3",
            ".5",
            "5.",
            "1.2.3",
            "0.0000001",
            "1,5",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("9223372036854.775808").is_err());
    }

    #[test]
    fn amounts_are_shown_with_two_decimals_or_as_many_as_they_need() {
        assert_eq!(show(25_000_000), "25.00");
        assert_eq!(show(1), "0.000001");
        assert_eq!(show(-1_500_000), "-1.50");
    }
}
