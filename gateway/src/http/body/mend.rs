//! Text of agents: they pass on what tools have said, which may cost a character but never a message.

use std::borrow::Cow;

/// Replaces what Postgres cannot store, escaped surrogates without a partner and NUL, by the
/// replacement character.
pub fn mend_escapes(text: &str) -> Cow<'_, str> {
    let escapes = ["\\ud", "\\uD", "\\u0000"];
    if !escapes.iter().any(|escape| text.contains(escape)) {
        return Cow::Borrowed(text);
    }
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        mended.push_str(&rest[..at]);
        rest = &rest[at..];
        let (kept, length) = match (surrogate(rest), surrogate(rest.get(6..).unwrap_or(""))) {
            (Some(Half::High), Some(Half::Low)) => (&rest[..12], 12),
            (Some(_), _) => ("\\ufffd", 6),
            (None, _) if rest.starts_with("\\u0000") => ("\\ufffd", 6),
            // Any other escape: the backslash and the character after it belong together.
            (None, _) => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                (&rest[..length], length)
            }
        };
        mended.push_str(kept);
        rest = &rest[length..];
    }
    mended.push_str(rest);
    Cow::Owned(mended)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// Whether the text begins with an escaped surrogate.
fn surrogate(text: &str) -> Option<Half> {
    let digits = text.get(..6)?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}
