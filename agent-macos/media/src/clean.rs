//! Makes what a foreign program said fit for a message that leaves this machine.
//!
//! The text may hold terminal escapes, NULs and paths of the provider's disk; none of them is the
//! buyer's business.

use std::path::Path;

/// The most that a message may quote, in bytes. The end is kept: that is where the cause is.
const MAX_BYTES: usize = 800;

/// Hides paths, drops control characters, joins lines with ` | ` and keeps the end.
pub(crate) fn clean(text: &str, folder: &Path) -> String {
    let folder = folder.to_string_lossy();
    let text = if folder.len() > 1 {
        text.replace(&*folder, ".")
    } else {
        text.to_owned()
    };
    let lines: Vec<String> = text
        .lines()
        .map(|line| hide_paths(&hide_addresses(line)))
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    keep_end(&lines.join(" | "))
}

/// FFmpeg prints its objects as `[mov @ 0x5581c0ffee]`: noise that differs on every run.
fn hide_addresses(line: &str) -> String {
    let mut rest = line;
    let mut out = String::with_capacity(line.len());
    while let Some(at) = rest.find(" @ 0x") {
        out.push_str(&rest[..at]);
        let after = &rest[at + " @ 0x".len()..];
        rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    out.push_str(rest);
    out
}

/// Replaces every absolute path by `<path>`. `30/1` and `./output.mp4` are not absolute paths.
fn hide_paths(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut before = ' ';
    let mut inside = false;
    for c in line.chars() {
        if inside && (c.is_whitespace() || matches!(c, '\'' | '"' | ':' | ',' | ')' | ']')) {
            inside = false;
        } else if !inside && c == '/' && !(before.is_alphanumeric() || matches!(before, '.' | '/'))
        {
            inside = true;
            out.push_str("<path>");
        }
        if !inside {
            out.push(c);
        }
        before = c;
    }
    out
}

fn keep_end(text: &str) -> String {
    if text.len() <= MAX_BYTES {
        return text.to_owned();
    }
    let mut start = text.len() - MAX_BYTES;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    format!("…{}", &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> String {
        clean(text, Path::new("/private/attempts/a1"))
    }

    #[test]
    fn paths_outside_the_folder_and_control_characters_disappear() {
        assert_eq!(
            cleaned("file:/private/attempts/a1/in.mp4: bad\0 \x1b[31mdata\n/some/where/else y"),
            "file:./in.mp4: bad [31mdata | <path> y"
        );
    }

    #[test]
    fn fractions_are_not_taken_for_paths_and_addresses_are_dropped() {
        assert_eq!(
            cleaned("[mov @ 0x55ceef2ac0c0] rate 30/1"),
            "[mov] rate 30/1"
        );
    }

    #[test]
    fn only_a_bounded_end_is_kept_and_it_stays_valid_text() {
        let text = cleaned(&"é".repeat(5_000));
        assert!(text.len() <= MAX_BYTES + "…".len() && text.ends_with('é'));
    }
}
