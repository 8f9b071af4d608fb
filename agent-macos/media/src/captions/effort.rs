//! How much there is to draw. The renderer knows no bounds: letters larger than the picture, edges
//! as wide as it and thousands of captions at once take hours of work and all of the memory.

use super::LineError;

/// The most captions that may be shown at the same time.
const MOST_AT_ONCE: usize = 200;
/// The most that may be shown at the same time in all, counted in letters of usual size.
const MOST_LETTERS_AT_ONCE: f64 = 10_000.0;
/// Letters of up to this part of the picture's height are of usual size.
const USUAL_PART: f64 = 0.1;
/// The largest scale, in percent.
const MOST_SCALE: f64 = 400.0;
/// The widest edge, in parts of the picture's height and in pixels.
const WIDEST_EDGE: (f64, f64) = (0.1, 100.0);

/// A caption, as far as it makes work.
pub(super) struct Shown {
    /// When, in milliseconds.
    pub(super) span: (u64, u64),
    /// How much, in letters of usual size.
    pub(super) letters: f64,
    /// Where it stands in the file, counted from 1.
    pub(super) line: usize,
}

/// Refuses more captions at once than can be read, or drawn.
pub(super) fn require_bearable(shown: &[Shown]) -> Result<(), LineError> {
    // What ends makes room for what begins at the same time.
    let mut turns: Vec<(u64, bool, &Shown)> = Vec::with_capacity(2 * shown.len());
    for caption in shown.iter().filter(|shown| shown.span.0 < shown.span.1) {
        turns.push((caption.span.0, true, caption));
        turns.push((caption.span.1, false, caption));
    }
    turns.sort_by_key(|&(time, begins, caption)| (time, begins, caption.line));
    let (mut count, mut letters) = (0_usize, 0.0);
    for (_, begins, caption) in turns {
        if !begins {
            count -= 1;
            letters -= caption.letters;
            continue;
        }
        count += 1;
        letters += caption.letters;
        if count > MOST_AT_ONCE {
            let problem = format!("at most {MOST_AT_ONCE} captions may be shown at the same time");
            return Err((caption.line, problem));
        }
        if letters > MOST_LETTERS_AT_ONCE {
            let problem = format!(
                "at most {MOST_LETTERS_AT_ONCE} letters of usual size may be shown at the same \
                 time: show fewer or smaller ones"
            );
            return Err((caption.line, problem));
        }
    }
    Ok(())
}

/// How large the letters of a style or of a caption become at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Letters {
    /// Their height, in units of the script.
    pub(super) size: f64,
    /// How they are scaled, in percent.
    pub(super) scale: f64,
}

impl Letters {
    /// Larger in both.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            size: self.size.max(other.size),
            scale: self.scale.max(other.scale),
        }
    }

    /// How many letters of usual size make as much work as one of these.
    pub(super) fn weight(self, height: f64) -> f64 {
        let part = self.size * self.scale / 100.0 / height;
        (part / USUAL_PART).powi(2).max(1.0)
    }
}

/// Properties that make work, by their names in styles and as codes. Longer codes first.
const BOUND: [&str; 15] = [
    "xbord", "ybord", "xshad", "yshad", "fscx", "fscy", "bord", "shad", "blur", "fax", "fay",
    "fsp", "be", "fs", "p",
];

/// The largest value of a property in a script of this height, in the script's units.
pub(super) fn most(property: &str, height: f64) -> f64 {
    match property {
        "fscx" | "fscy" => MOST_SCALE,
        "fax" | "fay" => 10.0,
        "be" | "p" => 20.0,
        "fs" | "fsp" => height,
        _ => (height * WIDEST_EDGE.0).min(WIDEST_EDGE.1),
    }
}

/// Refuses a value that would make too much work.
pub(super) fn require(property: &str, value: f64, height: f64) -> Result<(), String> {
    let most = most(property, height);
    if value.abs() <= most {
        return Ok(());
    }
    Err(format!(
        "\\{property} is {value}, and may be at most {most} where PlayResY is {height}"
    ))
}

/// Reads the codes of a caption: what is too much is refused, and the largest letters are told.
pub(super) fn codes(text: &str, height: f64, usual: Letters) -> Result<Letters, String> {
    let mut letters = usual;
    for code in text.split('\\').skip(1) {
        let code = code.trim_start();
        let Some(name) = BOUND.iter().find(|name| code.starts_with(**name)) else {
            continue;
        };
        let value = code[name.len()..].trim_start_matches([' ', '\t', '(']);
        if *name == "fs" && value.starts_with(['+', '-']) {
            return Err("\\fs must be a size, not a change of one".to_owned());
        }
        let Some(value) = number(value) else {
            continue;
        };
        require(name, value, height)?;
        match *name {
            "fs" => letters.size = letters.size.max(value),
            "fscx" | "fscy" => letters.scale = letters.scale.max(value.abs()),
            _ => {}
        }
    }
    Ok(letters)
}

/// The number that a text begins with.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (1..=end).rev().find_map(|end| text[..end].parse().ok())
}

/// How many letters of usual size a caption of a script is: a drawing counts as a letter as large
/// as the picture.
pub(super) fn letters(text: &str, letters: Letters, height: f64) -> f64 {
    let (mut count, mut inside) = (0_u32, false);
    for c in text.chars() {
        match c {
            '{' => inside = true,
            '}' => inside = false,
            c if !inside && !c.is_whitespace() => count += 1,
            _ => {}
        }
    }
    let count = f64::from(count);
    let draws = text.split('\\').skip(1).any(|code| {
        let code = code.trim_start().strip_prefix('p').and_then(number);
        code.is_some_and(|scale| scale > 0.0)
    });
    if draws {
        1.0 / USUAL_PART.powi(2) + count / 10.0
    } else {
        count * letters.weight(height)
    }
}
