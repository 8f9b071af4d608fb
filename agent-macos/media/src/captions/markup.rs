//! What the text of a caption says about its looks: bold, italic and underlined are kept.

/// A part of a caption's text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// Text without line breaks and control characters.
    Text(String),
    /// The next line.
    Break,
    /// A face begins or ends.
    Face(Face, bool),
}

/// The faces that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    Bold,
    Italic,
    Underlined,
}

impl Face {
    pub(super) fn letter(self) -> char {
        match self {
            Self::Bold => 'b',
            Self::Italic => 'i',
            Self::Underlined => 'u',
        }
    }
}

impl Piece {
    /// How many characters of it can be seen.
    pub(super) fn characters(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().filter(|c| !c.is_whitespace()).count(),
            Self::Break | Self::Face(..) => 0,
        }
    }
}

/// Reads lines of text with tags such as `<i>` and codes such as `{\an8}`; `decode` is applied to
/// what is left of the text.
pub(super) fn pieces(lines: &[&str], decode: impl Fn(&str) -> String) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            pieces.push(Piece::Break);
        }
        let mut rest = line.trim();
        while !rest.is_empty() {
            let (text, tag) = until_tag(rest);
            let text = decode(text);
            let text: String = text.chars().filter(|c| !c.is_control()).collect();
            if !text.is_empty() {
                pieces.push(Piece::Text(text));
            }
            pieces.extend(tag.and_then(|(inside, _)| face(inside)));
            rest = tag.map_or("", |(_, after)| after);
        }
    }
    pieces
}

/// The text before the first tag, what is inside of that tag and what comes after it.
fn until_tag(line: &str) -> (&str, Option<(&str, &str)>) {
    for (at, bracket) in line.match_indices(['<', '{']) {
        let after = &line[at + 1..];
        let (is_tag, close) = if bracket == "<" {
            let name = after.strip_prefix('/').unwrap_or(after);
            // `<3` is text, `<00:01.000>` a time within a WebVTT cue.
            let is_time = name.split_once('>').is_some_and(|(inside, _)| {
                inside.contains(':') && super::time::parse(inside).is_some()
            });
            (
                name.starts_with(|c: char| c.is_ascii_alphabetic()) || is_time,
                '>',
            )
        } else {
            (after.starts_with('\\'), '}')
        };
        if let Some((inside, rest)) = after.split_once(close).filter(|_| is_tag) {
            return (&line[..at], Some((inside, rest)));
        }
    }
    (line, None)
}

/// The face that a tag turns on or off; `b.loud` is WebVTT for a kind of `b`.
fn face(inside: &str) -> Option<Piece> {
    let (name, on) = match inside.strip_prefix('/') {
        Some(name) => (name, false),
        None => (inside, true),
    };
    let face = match name.split(['.', ' ', '\t']).next()? {
        "b" | "B" => Face::Bold,
        "i" | "I" => Face::Italic,
        "u" | "U" => Face::Underlined,
        _ => return None,
    };
    Some(Piece::Face(face, on))
}
