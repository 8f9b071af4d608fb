//! What a command has to say, for a person or for a program.

use std::io::{self, Write as _};

use serde_json::Value;

/// One answer in both forms.
#[derive(Debug, Clone)]
pub struct Report {
    text: String,
    json: Value,
}

impl Report {
    /// An answer.
    pub fn new(text: impl Into<String>, json: Value) -> Self {
        Self {
            text: text.into(),
            json,
        }
    }

    /// Writes it to stdout.
    pub(super) fn print(&self, as_json: bool) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if as_json {
            writeln!(stdout, "{}", self.json)?;
        } else {
            writeln!(stdout, "{}", self.text)?;
        }
        stdout.flush()
    }
}

/// The widest cell before the last one, in characters: an id fits. What is cut can be read whole
/// with `--json`.
const WIDEST: usize = 40;

/// Rows under headings, each column as wide as its widest cell; only the last may be wider than an id.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| shortened(row)).collect();
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells
            .chain([headings[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(headings.to_vec());
    let body = rows
        .iter()
        .map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(head)
        .chain(body)
        .collect::<Vec<_>>()
        .join("\n")
}

fn shortened(row: &[String]) -> Vec<String> {
    let last = row.len().saturating_sub(1);
    let cells = row.iter().enumerate().map(|(column, cell)| {
        if column == last || cell.chars().count() <= WIDEST {
            return cell.clone();
        }
        let kept: String = cell.chars().take(WIDEST - 1).collect();
        format!("{kept}…")
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["1".to_owned(), "é".to_owned()],
            vec!["333".to_owned(), "x".to_owned()],
        ];
        assert_eq!(table(&["id", "name"], &rows), "id   name\n1    é\n333  x");
    }

    #[test]
    fn a_long_name_does_not_push_the_rest_off_the_screen() {
        let rows = [vec!["n".repeat(200), "online".to_owned()]];
        let shown = table(&["name", "state"], &rows);
        let expected = format!("{}…  online", "n".repeat(39));
        assert_eq!(shown.lines().last(), Some(expected.as_str()));
    }
}
