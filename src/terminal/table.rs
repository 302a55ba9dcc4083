//! Rows in columns, for a list on a terminal.

use std::io::{self, IsTerminal, Write};
use std::mem;

use rustix::termios::tcgetwinsize;

/// Table whose columns are as wide as its first rows need.
pub(super) struct Table {
    header: &'static [&'static str],
    /// Columns of the terminal; longer lines are cut.
    columns: usize,
    /// Rows before the widths are known.
    first: Vec<Vec<String>>,
    /// Widths of the columns; none before the first line.
    widths: Vec<usize>,
}

impl Table {
    /// Makes a table if standard output is a terminal.
    pub(super) fn on_terminal(header: &'static [&'static str]) -> Option<Self> {
        let stdout = io::stdout();
        // Some terminals don't tell their size, and say 0.
        let columns = || match tcgetwinsize(&stdout) {
            Ok(size) if size.ws_col > 0 => size.ws_col.into(),
            _ => usize::MAX,
        };
        stdout.is_terminal().then(|| Self::new(header, columns()))
    }

    fn new(header: &'static [&'static str], columns: usize) -> Self {
        Self {
            header,
            columns,
            first: Vec::new(),
            widths: Vec::new(),
        }
    }

    /// Writes a row, or keeps it until the widths are known. Its cells are printable.
    pub(super) fn row(&mut self, cells: Vec<String>, out: &mut impl Write) -> io::Result<()> {
        if !self.widths.is_empty() {
            return writeln!(out, "{}", self.line(&cells));
        }
        self.first.push(cells);
        match self.first.len() {
            FIRST => self.flush(out),
            _ => Ok(()),
        }
    }

    /// Writes the rows that were kept, below the header.
    pub(super) fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        let first = mem::take(&mut self.first);
        if first.is_empty() {
            return Ok(());
        }
        let header: Vec<_> = self.header.iter().map(ToString::to_string).collect();
        let widest = |at: usize| {
            let column = first.iter().chain([&header]).filter_map(|row| row.get(at));
            column.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        self.widths = (0..header.len()).map(widest).collect();
        writeln!(out, "{BOLD}{}{PLAIN}", self.line(&header))?;
        let mut rows = first.iter();
        rows.try_for_each(|row| writeln!(out, "{}", self.line(row)))
    }

    fn line(&self, cells: &[String]) -> String {
        let cells = cells.iter().zip(&self.widths);
        let padded = cells.map(|(cell, &width)| format!("{cell:<width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        line.trim_end().chars().take(self.columns).collect()
    }
}

/// Rows that set the widths: more than a screen.
const FIRST: usize = 100;
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[[&str; 3]], columns: usize) -> String {
        let mut table = Table::new(&["NAME", "TENANT", "SITE"], columns);
        let mut out = Vec::new();
        for row in rows {
            let cells = row.iter().map(ToString::to_string).collect();
            table.row(cells, &mut out).unwrap();
        }
        table.flush(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_stand_below_each_other_and_lines_are_cut() {
        let rows = [
            ["a.example", "-", "root /srv/a"],
            ["bücher.example", "anna", "status 503"],
        ];
        let wide = "\x1b[1mNAME            TENANT  SITE\x1b[0m\n\
                    a.example       -       root /srv/a\n\
                    bücher.example  anna    status 503\n";
        assert_eq!(written(&rows, usize::MAX), wide);
        let narrow = "\x1b[1mNAME            TENA\x1b[0m\n\
                      a.example       -   \n\
                      bücher.example  anna\n";
        assert_eq!(written(&rows, 20), narrow);
        assert_eq!(written(&[], 80), "");
    }

    #[test]
    fn later_rows_keep_the_widths_of_the_first() {
        let mut rows = vec![["a.example", "-", "x"]; FIRST];
        rows.push(["long-name.example", "-", "x"]);
        let text = written(&rows, 80);
        assert_eq!(text.lines().count(), FIRST + 2);
        assert_eq!(text.lines().last().unwrap(), "long-name.example  -       x");
    }
}
