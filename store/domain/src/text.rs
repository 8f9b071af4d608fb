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

/// Leaves of every address in a text only its scheme and its host: who wrote the text may have been
/// given an address with a signature in it.
pub fn without_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let start = at + "://".len();
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let ends = |c: char| c.is_whitespace() || "\"'<>`".contains(c);
        let (address, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let authority_end = address.find(['/', '\\', '?', '#']);
        let (authority, path) = address.split_at(authority_end.unwrap_or(address.len()));
        // What stands before an `@` is a name and a password.
        out.push_str(authority.rsplit('@').next().unwrap_or(authority));
        out.push_str(if path.is_empty() { "" } else { "/…" });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_address_only_the_host_is_kept() {
        for (said, kept) in [
            ("nothing here", "nothing here"),
            (
                "GET https://files.example/a/b.mp4?sig=s3cret failed",
                "GET https://files.example/… failed",
            ),
            (
                "\"http://me:pw@10.0.0.1:80?x\", then s3://b/c",
                "\"http://10.0.0.1:80/…\", then s3://b/…",
            ),
            ("https://files.example", "https://files.example"),
            ("https://a@b@c/d://e?f", "https://c/…"),
            ("://", "://"),
        ] {
            assert_eq!(without_addresses(said), kept, "{said}");
        }
    }

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
