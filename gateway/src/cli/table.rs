//! Rows under headings. Columns are as wide as what is in them; on a terminal they are cut to its
//! width, anywhere else nothing is.

use console::{Alignment, Style, Term, measure_text_width, pad_str, truncate_str};
use uuid::Uuid;

/// Between two columns.
const GAP: &str = "  ";
/// No column is cut to less.
const NARROWEST: usize = 8;

/// How the cells of one column are coloured, by what they say; never anywhere but on a terminal.
type Paint = fn(&str) -> Style;

/// Headings, and the widths of what was under them so far.
pub(super) struct Table {
    headings: &'static [&'static str],
    widths: Vec<usize>,
    /// How wide the terminal is, if it is one.
    room: Option<usize>,
    paint: Option<(usize, Paint)>,
    is_begun: bool,
}

impl Table {
    /// For stdout.
    pub(super) fn new(headings: &'static [&'static str]) -> Self {
        let term = Term::stdout();
        let size = term.size_checked().filter(|_| term.is_term());
        Self {
            headings,
            widths: headings.iter().map(|heading| heading.len()).collect(),
            room: size.map(|(_, columns)| usize::from(columns)),
            paint: None,
            is_begun: false,
        }
    }

    /// Colours a column.
    pub(super) fn painting(self, column: usize, paint: Paint) -> Self {
        Self {
            paint: Some((column, paint)),
            ..self
        }
    }

    /// These rows as lines; before the first ones the headings. More may follow, which are as wide.
    pub(super) fn lines(&mut self, rows: &[Vec<String>]) -> Vec<String> {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| readable(cell)).collect())
            .collect();
        for (column, width) in self.widths.iter_mut().enumerate() {
            let cells = rows.iter().filter_map(|row| row.get(column));
            *width = cells
                .map(|cell| measure_text_width(cell))
                .fold(*width, usize::max);
        }
        if let Some(room) = self.room {
            let is_id = |column: usize| rows.iter().any(|row| has_id(row, column));
            let rigid: Vec<_> = (0..self.headings.len()).map(is_id).collect();
            fit(&mut self.widths, &rigid, room);
        }
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            let head: Vec<_> = self.headings.iter().map(ToString::to_string).collect();
            lines.push(self.line(&head, None));
        }
        lines.extend(rows.iter().map(|row| self.line(row, self.paint)));
        lines
    }

    fn line(&self, cells: &[String], paint: Option<(usize, Paint)>) -> String {
        let cells = cells.iter().zip(&self.widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| {
            let cut = match self.room {
                Some(_) => truncate_str(cell, width, "…"),
                None => cell.into(),
            };
            let padded = if column + 1 == self.widths.len() {
                cut
            } else {
                pad_str(&cut, width, Alignment::Left, None)
                    .into_owned()
                    .into()
            };
            match paint {
                Some((painted, paint)) if painted == column => {
                    paint(cell).apply_to(padded).to_string()
                }
                _ => padded.into_owned(),
            }
        });
        let line = cells.collect::<Vec<_>>().join(GAP);
        line.trim_end().to_owned()
    }
}

/// All rows under their headings.
pub(crate) fn table(headings: &'static [&'static str], rows: &[Vec<String>]) -> String {
    Table::new(headings).lines(rows).join("\n")
}

/// Names and values in two columns, without headings; what is nothing is left out.
pub(super) fn facts(facts: &[(&str, Option<String>)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = facts.iter().filter_map(|(name, value)| {
        let value = value
            .as_ref()?
            .replace('\n', &format!("\n{:width$}{GAP}", ""));
        Some(format!("{name:width$}{GAP}{value}"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A text without what a terminal would obey.
pub(super) fn readable(text: &str) -> String {
    text.replace(char::is_control, "�")
}

/// Ids are to be copied, so they are never cut.
fn has_id(row: &[String], column: usize) -> bool {
    row.get(column)
        .is_some_and(|cell| Uuid::parse_str(cell).is_ok())
}

/// Makes the widest columns narrower until all fit, if they can.
fn fit(widths: &mut [usize], rigid: &[bool], room: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > room {
        let flexible = widths.iter_mut().zip(rigid).filter(|(_, rigid)| !**rigid);
        let widest = flexible.map(|(width, _)| width).max();
        match widest.filter(|width| **width > NARROWEST) {
            Some(width) => *width -= 1,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(ToString::to_string).collect()
    }

    fn in_room(headings: &'static [&'static str], room: Option<usize>) -> Table {
        Table {
            room,
            ..Table::new(headings)
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = in_room(&["ID", "NAME"], None);
        let lines = table.lines(&[row(&["1", "é"]), row(&["日本語", "x"])]);
        assert_eq!(lines, ["ID      NAME", "1       é", "日本語  x"]);
        // What follows stands under it, without headings.
        assert_eq!(table.lines(&[row(&["2", "y"])]), ["2       y"]);
    }

    #[test]
    fn a_long_name_is_cut_where_there_is_a_width_and_an_id_never() {
        let id = "019adf00-0000-7000-8000-000000000001";
        let rows = [row(&[id, &"n".repeat(100), "online"])];
        let headings: &'static [&'static str] = &["ID", "NAME", "STATE"];
        let whole = in_room(headings, None).lines(&rows);
        assert_eq!(whole[1], format!("{id}  {}  online", "n".repeat(100)));
        let cut = in_room(headings, Some(60)).lines(&rows);
        assert_eq!(cut[1], format!("{id}  {}…  online", "n".repeat(13)));
        // Too narrow for an id: it stays whole, and the rest is as short as it gets.
        let narrow = in_room(headings, Some(10)).lines(&rows);
        assert_eq!(narrow[1], format!("{id}  nnnnnnn…  online"));
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown_to_it() {
        let lines = in_room(&["NAME"], None).lines(&[row(&["a\u{1b}[2Jb\nc"])]);
        assert_eq!(lines[1], "a�[2Jb�c");
    }

    #[test]
    fn facts_that_are_none_are_left_out() {
        let some = |text: &str| Some(text.to_owned());
        let shown = facts(&[("id", some("1")), ("waits", None), ("params", some("a\nb"))]);
        assert_eq!(shown, "id      1\nparams  a\n        b");
    }
}
