//! Advanced `SubStation` Alpha: captions that say how they look.
//!
//! Such a script may also carry fonts and pictures, which programs with a long history would have
//! to read. So only these lines are taken over: a few about the whole, styles, and dialogue.

use super::{LineError, MOST_CHARACTERS, MOST_CUES, time};

/// The most styles, and the longest line in bytes.
const MOST_STYLES: usize = 1_000;
const LONGEST_LINE: usize = 8 * MOST_CHARACTERS;

/// What is said about the whole.
const INFO: [&str; 9] = [
    "ScriptType",
    "PlayResX",
    "PlayResY",
    "LayoutResX",
    "LayoutResY",
    "WrapStyle",
    "ScaledBorderAndShadow",
    "Kerning",
    "YCbCr Matrix",
];

/// A script with nothing in it but captions and their looks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    /// The script.
    pub(super) text: String,
    /// When its captions are shown, in milliseconds.
    pub(super) times: Vec<(u64, u64)>,
}

/// Where in a script a line stands.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Info,
    Styles,
    Events,
    Other,
}

impl Section {
    fn named(title: &str) -> Self {
        match title.to_ascii_lowercase().as_str() {
            "[script info]" => Self::Info,
            "[v4+ styles]" | "[v4 styles]" => Self::Styles,
            "[events]" => Self::Events,
            _ => Self::Other,
        }
    }

    fn keeps(self, key: &str) -> bool {
        match self {
            Self::Info => INFO.contains(&key),
            Self::Styles => matches!(key, "Format" | "Style"),
            Self::Events => matches!(key, "Format" | "Dialogue"),
            Self::Other => false,
        }
    }
}

/// Takes over what a script needs.
pub(super) fn parse(lines: &[&str]) -> Result<Script, LineError> {
    let mut script = Script {
        text: String::new(),
        times: Vec::new(),
    };
    let (mut section, mut styles) = (Section::Other, 0);
    // The usual order, for scripts that do not say theirs.
    let mut columns = (1, 2);
    for (number, line) in lines.iter().enumerate() {
        let wrong = |problem: String| (number + 1, problem);
        let line = line.trim();
        if line.starts_with('[') && line.ends_with(']') {
            section = Section::named(line);
            if section != Section::Other {
                script.text.push_str(line);
                script.text.push('\n');
            }
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        if !section.keeps(key) {
            continue;
        }
        if line.len() > LONGEST_LINE {
            return Err(wrong(format!(
                "a line may have at most {LONGEST_LINE} bytes"
            )));
        }
        match (section, key) {
            (Section::Styles, "Style") => styles += 1,
            (Section::Events, "Format") => columns = times_in(value).map_err(wrong)?,
            (Section::Events, "Dialogue") => {
                script.times.push(span(value, columns).map_err(wrong)?);
            }
            _ => {}
        }
        if styles > MOST_STYLES || script.times.len() > MOST_CUES {
            return Err(wrong(format!(
                "there may be at most {MOST_STYLES} styles and {MOST_CUES} captions"
            )));
        }
        script.text.extend(line.chars().filter(|c| !c.is_control()));
        script.text.push('\n');
    }
    Ok(script)
}

/// In which columns a line of dialogue has its times.
fn times_in(format: &str) -> Result<(usize, usize), String> {
    let column = |name: &str| {
        let mut names = format.split(',');
        names.position(|found| found.trim().eq_ignore_ascii_case(name))
    };
    match (column("Start"), column("End")) {
        (Some(start), Some(end)) => Ok((start, end)),
        _ => Err("the format of events has no Start and End".to_owned()),
    }
}

fn span(dialogue: &str, (start, end): (usize, usize)) -> Result<(u64, u64), String> {
    let time = |column| {
        let text = dialogue.split(',').nth(column)?;
        time::parse(text.trim())
    };
    let times = time(start).zip(time(end));
    times.ok_or_else(|| {
        "the caption's times are not written like 0:00:01.00, up to 99 hours".to_owned()
    })
}
