//! Captions that a buyer sent: a text from outside, and hostile until proven otherwise.
//!
//! FFmpeg never sees it. Left to guess, it takes a playlist for captions and follows it, and what
//! it passes on to the renderer may hold fonts and pictures. So the text is read here, within
//! bounds, and FFmpeg is given one that we wrote: `SubRip` and `WebVTT` as cues, written anew;
//! `SubStation` line by line, only with what it needs.

mod ass;
mod effort;
mod markup;
mod srt;
mod ssa;
mod time;
mod vtt;

use std::path::Path;

use tokio::io::AsyncReadExt;

use crate::work::invalid;
use crate::{FailureCode, MediaFailure};
pub(crate) use ass::Look;
use effort::{Shown, require_bearable};
use markup::Piece;
use ssa::Script;

/// The largest file of captions, in bytes: a film of three hours has a tenth of it.
const MOST_BYTES: u64 = 2 << 20;
/// The most captions of one file.
const MOST_CUES: usize = 20_000;
/// The most characters of one caption.
const MOST_CHARACTERS: usize = 2_000;

/// Captions, read and understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Captions {
    /// Text with times; how it looks is said by us.
    Cues(Vec<Cue>),
    /// Text that says how it looks.
    Script(Script),
}

/// One caption.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cue {
    /// When it is shown, in milliseconds.
    start: u64,
    /// Until when.
    end: u64,
    /// What it says.
    text: Vec<Piece>,
    /// Where it stands in the file, counted from 1.
    line: usize,
}

impl Cue {
    fn characters(&self) -> usize {
        self.text.iter().map(Piece::characters).sum()
    }
}

/// What is wrong, and in which line, counted from 1.
type LineError = (usize, String);

impl Captions {
    /// Reads a file of captions. Whatever is wrong with it is `input_invalid`, and names the line.
    pub(crate) async fn read(file: &Path) -> Result<Self, MediaFailure> {
        let text = text_of(file).await?;
        Self::parse(&text).map_err(|(line, problem)| invalid(format!("line {line}: {problem}")))
    }

    /// The kind is told by the beginning.
    fn parse(text: &str) -> Result<Self, LineError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.iter().find(|line| !line.trim().is_empty());
        let first = first.map_or("", |line| line.trim());
        if first.eq_ignore_ascii_case("[script info]") {
            return ssa::parse(&lines).map(Self::Script);
        }
        let cues = if first.split([' ', '\t']).next() == Some("WEBVTT") {
            vtt::parse(&lines)?
        } else {
            srt::parse(&lines)?
        };
        let shown = cues.iter().map(|cue| Shown {
            span: (cue.start, cue.end),
            letters: f64::from(u32::try_from(cue.characters()).unwrap_or(u32::MAX)),
            line: cue.line,
        });
        require_bearable(&shown.collect::<Vec<_>>())?;
        Ok(Self::Cues(cues))
    }

    /// Refuses captions of which none is shown in a film of this length: they belong to another.
    pub(crate) fn require_some_within(&self, seconds: Option<f64>) -> Result<(), MediaFailure> {
        let end = seconds.map_or(u64::MAX, time::milliseconds);
        let shown = |start: u64, stop: u64| start < end && start < stop;
        let any = match self {
            Self::Cues(cues) => cues.iter().any(|cue| shown(cue.start, cue.end)),
            Self::Script(script) => script.times.iter().any(|&(start, stop)| shown(start, stop)),
        };
        match seconds {
            _ if any => Ok(()),
            Some(seconds) => Err(invalid(format!(
                "no caption would be shown: all of them begin after the video's end at \
                 {seconds:.2} s, or there are none"
            ))),
            None => Err(invalid("there is no caption in it")),
        }
    }

    /// A script for the renderer, for a picture of this size.
    pub(crate) fn as_script(&self, look: Look) -> String {
        match self {
            Self::Cues(cues) => ass::write(cues, look),
            Self::Script(script) => script.text.clone(),
        }
    }

    /// `SubRip`, without what would be shown after `seconds`. Captions that say how they look have
    /// no place in a track of text.
    pub(crate) fn as_subrip(&self, seconds: f64) -> Result<String, MediaFailure> {
        match self {
            Self::Cues(cues) => Ok(srt::write(cues, time::milliseconds(seconds))),
            Self::Script(_) => Err(invalid(
                "ass captions have looks, which a track of text cannot keep: send srt or vtt, or \
                 draw them with caption_burn.v1",
            )),
        }
    }
}

/// The whole text, if it is one and not too long.
async fn text_of(file: &Path) -> Result<String, MediaFailure> {
    let cannot = |error: std::io::Error| MediaFailure::io("the file cannot be read", &error);
    // Asked before opening: opening a FIFO would wait for its writer.
    let metadata = tokio::fs::metadata(file).await.map_err(cannot)?;
    if !metadata.is_file() {
        return Err(invalid("not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(file).await.map_err(cannot)?;
    let mut bounded = file.take(MOST_BYTES + 1);
    bounded.read_to_end(&mut bytes).await.map_err(cannot)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(invalid(format!(
            "captions may have at most {MOST_BYTES} bytes"
        )));
    }
    // UTF-16 of plain letters is valid UTF-8 with NULs in it.
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) | Err(_) => Err(MediaFailure::new(
            FailureCode::InputInvalid,
            "the captions are not text in UTF-8: store them in that encoding",
        )),
    }
}

/// Adds a cue, if it shows anything.
fn add(cues: &mut Vec<Cue>, cue: Cue) -> Result<(), LineError> {
    let (line, characters) = (cue.line, cue.characters());
    if characters > MOST_CHARACTERS {
        let problem = format!("a caption may have at most {MOST_CHARACTERS} characters");
        return Err((line, problem));
    }
    if cues.len() == MOST_CUES {
        return Err((line, format!("there may be at most {MOST_CUES} captions")));
    }
    if characters > 0 && cue.start < cue.end {
        cues.push(cue);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
