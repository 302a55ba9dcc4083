//! Rows in columns, for a list on a terminal.

use std::io::{self, Write};
use std::mem;

/// Table whose columns are as wide as its first rows need.
pub(super) struct Table {
    /// Rows before the widths are known, the header first.
    first: Vec<Vec<String>>,
    /// Widths of the columns; none before the first line.
    widths: Vec<usize>,
}

impl Table {
    pub(super) fn new(header: &[&str]) -> Self {
        Self {
            first: vec![header.iter().map(ToString::to_string).collect()],
            widths: Vec::new(),
        }
    }

    /// Writes a row, or keeps it until the widths are known. Its cells are printable.
    pub(super) fn row(&mut self, cells: Vec<String>, out: &mut impl Write) -> io::Result<()> {
        self.first.push(cells);
        match self.widths.is_empty() && self.first.len() <= FIRST {
            true => Ok(()),
            false => self.flush(out),
        }
    }

    /// Writes the rows that were kept, unless there is none but the header.
    pub(super) fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        let rows = mem::take(&mut self.first);
        if self.widths.is_empty() && rows.len() > 1 {
            let widest = |at: usize| {
                let column = rows.iter().filter_map(|row| row.get(at));
                column.map(|cell| cell.chars().count()).max().unwrap_or(0)
            };
            self.widths = (0..rows[0].len()).map(widest).collect();
        }
        for row in rows.iter().filter(|_| !self.widths.is_empty()) {
            let cells = row.iter().zip(&self.widths);
            let cells = cells.map(|(cell, &width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Rows that set the widths: more than a screen.
const FIRST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[[&str; 3]]) -> String {
        let mut table = Table::new(&["NAME", "TENANT", "SITE"]);
        let mut out = Vec::new();
        for row in rows {
            let cells = row.iter().map(ToString::to_string).collect();
            table.row(cells, &mut out).unwrap();
        }
        table.flush(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [
            ["a.example", "-", "root /srv/a"],
            ["bücher.example", "anna", "status 503"],
        ];
        let table = "NAME            TENANT  SITE\n\
                     a.example       -       root /srv/a\n\
                     bücher.example  anna    status 503\n";
        assert_eq!(written(&rows), table);
        assert_eq!(written(&[]), "");
    }

    #[test]
    fn later_rows_keep_the_widths_of_the_first() {
        let mut rows = vec![["a.example", "-", "x"]; FIRST];
        rows.push(["long-name.example", "-", "x"]);
        let text = written(&rows);
        assert_eq!(text.lines().count(), FIRST + 2);
        assert_eq!(text.lines().last().unwrap(), "long-name.example  -       x");
    }
}
