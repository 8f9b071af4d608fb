//! Advanced `SubStation` Alpha: captions that say how they look.
//!
//! Such a script may also carry fonts and pictures, which programs with a long history would have
//! to read. So only these lines are taken over: a few about the whole, styles, and dialogue.

use std::collections::HashMap;

use super::effort::{Letters, Shown, codes, letters, number, require, require_bearable};
use super::{LineError, MOST_CHARACTERS, MOST_CUES, time};

/// The most styles, and the longest line in bytes.
const MOST_STYLES: usize = 1_000;
const LONGEST_LINE: usize = 8 * MOST_CHARACTERS;

/// What the script's units may be parts of.
const RESOLUTIONS: std::ops::RangeInclusive<f64> = 64.0..=16_384.0;

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
    let height = height(lines)?;
    let mut looks = Looks::new(height);
    let mut shown = Vec::new();
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
            (Section::Styles, "Style") => {
                styles += 1;
                looks.add(value).map_err(wrong)?;
            }
            (Section::Styles, "Format") => looks.format(value),
            (Section::Events, "Format") => {
                columns = times_in(value).map_err(wrong)?;
                let names = || value.split(',');
                let style = names().position(|name| name.trim().eq_ignore_ascii_case("style"));
                looks.events = (style.unwrap_or(usize::MAX), names().count());
            }
            (Section::Events, "Dialogue") => {
                let span = span(value, columns).map_err(wrong)?;
                let letters = looks.letters(value).map_err(wrong)?;
                script.times.push(span);
                shown.push(Shown {
                    span,
                    letters,
                    line: number + 1,
                });
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
    require_bearable(&shown)?;
    Ok(script)
}

/// The smallest height that the script's units may be parts of: that makes its letters the largest.
fn height(lines: &[&str]) -> Result<f64, LineError> {
    let mut height: Option<f64> = None;
    let mut width: Option<f64> = None;
    for (at, line) in lines.iter().enumerate() {
        let Some((key, value)) = line.trim().split_once(':') else {
            continue;
        };
        let side = match key {
            "PlayResX" => &mut width,
            "PlayResY" | "LayoutResY" => &mut height,
            _ => continue,
        };
        // 0 and less is what says nothing.
        let Some(value) = number(value).filter(|value| *value > 0.0) else {
            continue;
        };
        if !RESOLUTIONS.contains(&value) {
            return Err((at + 1, format!("{key} must be 64 to 16384")));
        }
        *side = Some(side.map_or(value, |side| side.min(value)));
    }
    // A width alone is that of a picture of 4:3; with neither, the renderer has its own.
    Ok(match (width, height) {
        // Narrow units make wide letters.
        (Some(width), Some(height)) => height.min(width * 2.0),
        (Some(width), None) => width * 0.75,
        (None, Some(height)) => height,
        (None, None) => 288.0,
    })
}

/// What styles say about the size of letters.
struct Looks {
    height: f64,
    /// Names of the columns of a style.
    columns: Vec<String>,
    named: HashMap<String, Letters>,
    largest: Letters,
    /// In which column a line of dialogue names its style, and how many columns there are.
    events: (usize, usize),
}

impl Looks {
    fn new(height: f64) -> Self {
        let usual = "name,fontname,fontsize,,,,,,,,,scalex,scaley,,,,outline,shadow";
        Self {
            height,
            columns: usual.split(',').map(str::to_owned).collect(),
            named: HashMap::new(),
            largest: Letters {
                size: 18.0,
                scale: 100.0,
            },
            events: (3, 10),
        }
    }

    fn format(&mut self, value: &str) {
        let names = value.split(',');
        self.columns = names.map(|name| name.trim().to_ascii_lowercase()).collect();
    }

    fn add(&mut self, style: &str) -> Result<(), String> {
        let (mut name, mut letters) = (String::new(), self.largest);
        for (column, value) in self.columns.iter().zip(style.split(',')) {
            let property = match column.as_str() {
                "name" => {
                    value.trim().trim_start_matches('*').clone_into(&mut name);
                    continue;
                }
                "fontsize" => "fs",
                "scalex" => "fscx",
                "scaley" => "fscy",
                "outline" => "bord",
                "shadow" => "shad",
                _ => continue,
            };
            let value = number(value).unwrap_or(0.0);
            require(property, value, self.height)?;
            match property {
                "fs" => letters.size = value.abs(),
                "fscx" => letters.scale = value.abs(),
                "fscy" => letters.scale = letters.scale.max(value.abs()),
                _ => {}
            }
        }
        self.largest = self.largest.or(letters);
        self.named.insert(name, letters);
        Ok(())
    }

    /// How many letters of usual size a line of dialogue shows.
    fn letters(&self, dialogue: &str) -> Result<f64, String> {
        let (style, columns) = self.events;
        let style = dialogue.split(',').nth(style).unwrap_or_default();
        let style = style.trim().trim_start_matches('*');
        let usual = match self.named.get(style) {
            Some(letters) if !dialogue.contains("\\r") => *letters,
            _ => self.largest,
        };
        let largest = codes(dialogue, self.height, usual)?;
        let text = dialogue.splitn(columns, ',').last().unwrap_or_default();
        Ok(letters(text, largest, self.height))
    }
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
