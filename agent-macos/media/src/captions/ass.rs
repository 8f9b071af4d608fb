//! Writes cues as a script for libass, with looks of ours.

use std::fmt::Write as _;

use fencepost_domain::service::caption_burn::Position;

use super::markup::Piece;
use super::{Cue, time};
use crate::Size;

/// How cues look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Look {
    /// The picture they are drawn into.
    pub(crate) size: Size,
    /// Where they stand in it.
    pub(crate) position: Position,
    /// Height of a line in percent of the picture's.
    pub(crate) size_percent: f64,
}

/// White letters with a black edge, whose size follows the picture's.
pub(super) fn write(cues: &[Cue], look: Look) -> String {
    let Size { width, height } = look.size;
    let letters = f64::from(height) * look.size_percent / 100.0;
    let edge = (letters * 0.06).max(0.5);
    let (across, down) = (width / 25, height / 25);
    let place = match look.position {
        Position::Bottom => 2,
        Position::Middle => 5,
        Position::Top => 8,
    };
    let mut out = format!(
        "[Script Info]\nScriptType: v4.00+\nPlayResX: {width}\nPlayResY: {height}\n\
         WrapStyle: 0\nScaledBorderAndShadow: yes\n\n\
         [V4+ Styles]\n\
         Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, \
         BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, \
         BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding\n\
         Style: Default,Arial,{letters:.2},&H00FFFFFF,&H00FFFFFF,&H00000000,&H00000000,\
         0,0,0,0,100,100,0,0,1,{edge:.2},0,{place},{across},{across},{down},1\n\n\
         [Events]\n\
         Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    );
    for cue in cues {
        let (start, end) = (clock(cue.start), clock(cue.end));
        // Writing into a string cannot fail.
        let _ = write!(out, "Dialogue: 0,{start},{end},Default,,0,0,0,,");
        for piece in &cue.text {
            match piece {
                Piece::Text(text) => out.push_str(&plain(text)),
                Piece::Break => out.push_str("\\N"),
                Piece::Face(face, on) => {
                    let _ = write!(out, "{{\\{}{}}}", face.letter(), u8::from(*on));
                }
            }
        }
        out.push('\n');
    }
    out
}

/// Text in which libass sees no codes: they stand in braces or begin with a backslash.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '{' => out.push_str("\\{"),
            '}' => out.push_str("\\}"),
            '\\' => out.push_str("\\\u{2060}"),
            c => out.push(c),
        }
    }
    out
}

fn clock(milliseconds: u64) -> String {
    let (hours, minutes, seconds, rest) = time::split(milliseconds);
    format!("{hours}:{minutes:02}:{seconds:02}.{:02}", rest / 10)
}
