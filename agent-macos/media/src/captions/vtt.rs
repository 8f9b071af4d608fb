//! `WebVTT`: a header, then cues, notes and styles between empty lines.

use super::markup::pieces;
use super::srt::paragraph;
use super::{Cue, LineError, add, time};

/// Reads cues; notes, styles, regions and the places that cues ask for are left out.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<Cue>, LineError> {
    let mut cues = Vec::new();
    // The header goes on to the first empty line.
    let header = lines.iter().position(|line| !line.trim().is_empty());
    let mut at = block_end(lines, header.unwrap_or(0));
    while at < lines.len() {
        let line = lines[at].trim();
        if line.is_empty() {
            at += 1;
            continue;
        }
        let word = line.split([' ', '\t']).next().unwrap_or_default();
        if matches!(word, "NOTE" | "STYLE" | "REGION") && !line.contains("-->") {
            at = block_end(lines, at);
            continue;
        }
        // A name may stand above the times.
        let times = if line.contains("-->") { at } else { at + 1 };
        let span = match lines.get(times) {
            Some(line) => time::span(line),
            None => Err("here the times of a caption should follow".to_owned()),
        };
        let (start, end) = span.map_err(|problem| (times.min(lines.len() - 1) + 1, problem))?;
        let text = &lines[times + 1..paragraph(lines, times + 1)?];
        let cue = Cue {
            start,
            end,
            text: pieces(text, decode),
            line: times + 1,
        };
        add(&mut cues, cue)?;
        at = times + 1 + text.len();
    }
    Ok(cues)
}

fn block_end(lines: &[&str], from: usize) -> usize {
    let skipped = lines.iter().skip(from);
    let length = skipped.take_while(|line| !line.trim().is_empty()).count();
    from + length
}

/// Text in which characters may be written by name or number, as `&lt;` and `&#60;`.
fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let named = after
            .split_once(';')
            .and_then(|(name, after)| Some((character(name)?, after)));
        if let Some((character, after)) = named {
            out.push(character);
            rest = after;
        } else {
            out.push('&');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "lrm" => '\u{200e}',
        "rlm" => '\u{200f}',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}
