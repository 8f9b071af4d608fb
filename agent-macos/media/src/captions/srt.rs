//! `SubRip`: numbered cues between empty lines.

use std::fmt::Write as _;

use super::markup::{Piece, pieces};
use super::{Cue, LineError, add, time};

/// Reads cues. Their numbers may be missing or wrong; times may not.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<Cue>, LineError> {
    let mut cues = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim();
        let is_number = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        if line.is_empty() || (is_number && !line.contains("-->")) {
            at += 1;
            continue;
        }
        if !line.contains("-->") {
            let problem = "here a caption should begin, with its times such as \
                           00:00:01,000 --> 00:00:02,500 (captions are srt, vtt or ass)";
            return Err((at + 1, problem.to_owned()));
        }
        let (start, end) = time::span(line).map_err(|problem| (at + 1, problem))?;
        let text = paragraph(lines, at + 1)?;
        let text = &lines[at + 1..text];
        let cue = Cue {
            start,
            end,
            text: pieces(text, str::to_owned),
            line: at + 1,
        };
        add(&mut cues, cue)?;
        at += 1 + text.len();
    }
    Ok(cues)
}

/// Where the text that begins at `from` ends: at an empty line.
pub(super) fn paragraph(lines: &[&str], from: usize) -> Result<usize, LineError> {
    for (at, line) in lines.iter().enumerate().skip(from) {
        if line.trim().is_empty() {
            return Ok(at);
        }
        if line.contains("-->") {
            let problem = "an empty line is missing before this caption";
            return Err((at + 1, problem.to_owned()));
        }
    }
    Ok(lines.len())
}

/// Cues as we write them, up to a time.
pub(super) fn write(cues: &[Cue], stop: u64) -> String {
    let mut out = String::new();
    let shown = cues.iter().filter(|cue| cue.start < stop);
    for (number, cue) in shown.enumerate() {
        let (start, end) = (clock(cue.start), clock(cue.end.min(stop)));
        // Writing into a string cannot fail.
        let _ = writeln!(out, "{}\n{start} --> {end}", number + 1);
        for piece in &cue.text {
            match piece {
                Piece::Text(text) => out.push_str(&plain(text)),
                Piece::Break => out.push('\n'),
                Piece::Face(face, on) => {
                    let slash = if *on { "" } else { "/" };
                    let _ = write!(out, "<{slash}{}>", face.letter());
                }
            }
        }
        out.push_str("\n\n");
    }
    out
}

/// Text in which FFmpeg sees no tag, no code and no time: an invisible character parts what could
/// be read as one.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '>' {
            out.push('\u{2060}');
        }
        out.push(c);
        if matches!(c, '<' | '{' | '\\') {
            out.push('\u{2060}');
        }
    }
    out
}

fn clock(milliseconds: u64) -> String {
    let (hours, minutes, seconds, rest) = time::split(milliseconds);
    format!("{hours:02}:{minutes:02}:{seconds:02},{rest:03}")
}
