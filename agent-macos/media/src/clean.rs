//! Makes what a foreign program said fit for a message that leaves this machine.
//!
//! The text may hold terminal escapes, NULs and paths of the provider's disk; none of them is the
//! buyer's business.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fencepost_domain::text::without_addresses;

/// The most that a message may quote, in bytes. The end is kept: that is where the cause is.
const MAX_BYTES: usize = 800;

/// Said by FFmpeg and its libraries where nothing is wrong.
const NOISE: [&str; 7] = [
    "Guessed Channel Layout",
    "Glyph 0x",
    "fontselect:",
    "deprecated pixel format used",
    "Increasing reorder buffer",
    "Could not update timestamps for skipped samples",
    "Queue input is backward in time",
];

/// What inputs are called in the order, for texts in which FFmpeg calls them by their files.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<(String, String)>);

impl Names {
    pub(crate) fn of(inputs: &BTreeMap<String, PathBuf>) -> Self {
        let named = inputs
            .iter()
            .map(|(name, file)| (file.to_string_lossy().into_owned(), format!("input {name}")));
        Self::sorted(named.collect())
    }

    /// One file that the message is about anyway.
    pub(crate) fn one(file: &Path) -> Self {
        Self(vec![(
            file.to_string_lossy().into_owned(),
            "the file".to_owned(),
        )])
    }

    /// The path of one file may be the beginning of another's.
    fn sorted(mut named: Vec<(String, String)>) -> Self {
        named.sort_by_key(|(file, _)| std::cmp::Reverse(file.len()));
        Self(named)
    }

    pub(crate) fn instead_of_files(&self, said: &str) -> String {
        let mut said = said.to_owned();
        for (file, name) in &self.0 {
            said = said.replace(&format!("file:{file}"), name);
            said = said.replace(file, name);
        }
        said
    }
}

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
        .filter(|line| !NOISE.iter().any(|noise| line.contains(noise)))
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

/// Replaces every absolute path by `<path>`. `30/1` and `./output.mp4` are not absolute paths, and
/// neither are the addresses of a buyer's program, of which the host stays.
fn hide_paths(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = ["http://", "https://"]
        .iter()
        .filter_map(|scheme| rest.find(scheme))
        .min()
    {
        hide_paths_between_addresses(&rest[..at], &mut out);
        rest = &rest[at..];
        let ends =
            |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ',' | ')' | ']' | '>');
        let (address, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        out.push_str(&without_addresses(address));
        rest = after;
    }
    hide_paths_between_addresses(rest, &mut out);
    out
}

fn hide_paths_between_addresses(line: &str, out: &mut String) {
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
    fn inputs_are_called_as_in_the_order_and_noise_is_left_out() {
        let names = Names::of(&BTreeMap::from([
            (
                "clip_7".to_owned(),
                PathBuf::from("/private/attempts/a1/input-1"),
            ),
            (
                "clip_9".to_owned(),
                PathBuf::from("/private/attempts/a1/input-10"),
            ),
        ]));
        let said = "Guessed Channel Layout for Input Stream #0.0 : mono\n\
                    [Parsed_ass_2 @ 0x55] Glyph 0x1F600 not found, selecting one more font\n\
                    file:/private/attempts/a1/input-10: corrupt input packet in stream 0\n\
                    file:/private/attempts/a1/input-1: Invalid data\n";
        assert_eq!(
            cleaned(&names.instead_of_files(said)),
            "input clip_9: corrupt input packet in stream 0 | input clip_7: Invalid data"
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
    fn of_addresses_the_host_is_named_and_of_files_nothing() {
        assert_eq!(
            cleaned(
                "no image at https://x.example/a/cat.png?sig=s3cret, nor at (/home/me/cat.png)"
            ),
            "no image at https://x.example/…, nor at (<path>)"
        );
        assert_eq!(
            cleaned("\"http://x.example\" and file:///home/me/b.png"),
            "\"http://x.example\" and file:<path>"
        );
    }

    #[test]
    fn only_a_bounded_end_is_kept_and_it_stays_valid_text() {
        let text = cleaned(&"é".repeat(5_000));
        assert!(text.len() <= MAX_BYTES + "…".len() && text.ends_with('é'));
    }
}
