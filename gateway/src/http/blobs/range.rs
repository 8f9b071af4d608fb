//! `Range: bytes=…`, as far as one part goes.

use std::ops::Range;

/// What a Range header asks of an object of a known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it: no header, or one that RFC 9110 lets us ignore (other units, several parts,
    /// unreadable).
    Whole,
    /// One part, within the object.
    Part(Range<u64>),
    /// A part that lies outside of it.
    Nothing,
}

/// Judges a Range header.
pub(super) fn wanted(header: Option<&str>, size: u64) -> Wanted {
    let Some(spec) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else {
        return Wanted::Whole;
    };
    let Some((first, last)) = spec.trim().split_once('-') else {
        return Wanted::Whole;
    };
    match (number(first), number(last)) {
        // The last n bytes.
        (Number::Absent, Number::Is(0)) => Wanted::Nothing,
        (Number::Absent, Number::Is(count)) => part(size.saturating_sub(count)..size),
        (Number::Is(start), Number::Absent) => within(start, u64::MAX, size),
        (Number::Is(start), Number::Is(end)) if start <= end => within(start, end, size),
        _ => Wanted::Whole,
    }
}

/// `start..=end` cut to the object.
fn within(start: u64, end: u64, size: u64) -> Wanted {
    part(start..end.saturating_add(1).min(size))
}

fn part(range: Range<u64>) -> Wanted {
    if range.is_empty() {
        return Wanted::Nothing;
    }
    Wanted::Part(range)
}

enum Number {
    Absent,
    Is(u64),
    Unreadable,
}

fn number(text: &str) -> Number {
    match text.trim() {
        "" => Number::Absent,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            // More digits than fit are merely past any object's end.
            Number::Is(digits.parse().unwrap_or(u64::MAX))
        }
        _ => Number::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_to_the_object() {
        for (header, range) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-5", 2..6),
            ("bytes=2-", 2..10),
            ("bytes=9-99999999999999999999999", 9..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
            (" bytes=0-9 ", 0..10),
        ] {
            assert_eq!(wanted(Some(header), 10), Wanted::Part(range), "{header}");
        }
    }

    #[test]
    fn parts_outside_of_the_object_are_nothing() {
        for header in [
            "bytes=10-",
            "bytes=10-12",
            "bytes=-0",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(wanted(Some(header), 10), Wanted::Nothing, "{header}");
        }
        for header in ["bytes=0-", "bytes=-5", "bytes=0-0"] {
            assert_eq!(wanted(Some(header), 0), Wanted::Nothing, "{header}");
        }
    }

    #[test]
    fn what_is_no_single_range_of_bytes_is_ignored() {
        for header in [
            "lines=1-2",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "bytes=a-b",
        ] {
            assert_eq!(wanted(Some(header), 10), Wanted::Whole, "{header}");
        }
        assert_eq!(wanted(None, 10), Wanted::Whole);
    }
}
