//! Text from agents and tools, made safe to store without ever losing the message it came with.

/// Keeps what can be stored and read: no NUL, no control characters but newline and tab, at most
/// `max_bytes` bytes (cut at a character, with an ellipsis).
pub fn clean(text: &str, max_bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_bytes));
    for c in text.chars() {
        let c = match c {
            '\n' | '\t' => c,
            c if c.is_control() => continue,
            c => c,
        };
        if out.len() + c.len_utf8() + '…'.len_utf8() > max_bytes {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_and_control_characters_are_dropped_and_the_rest_is_kept() {
        assert_eq!(clean("a\0b\u{7}c\nd\u{1b}[31m", 100), "abc\nd[31m");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let cut = clean(&"é".repeat(100), 20);
        assert!(cut.len() <= 20 && cut.ends_with('…'), "{cut}");
    }
}
