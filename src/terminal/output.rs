//! Writes standard output: text for people, JSON for programs.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use sekisho_certs::credential::Date;
use sekisho_certs::{HostPattern, printable};
use serde::Serialize;

use crate::terminal::failure::ReaderGone;
use crate::terminal::table::Table;

/// Buffered standard output, which distinguishes a closed pipe from other
/// errors.
pub(crate) struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    pub(crate) fn new() -> Self {
        Self(BufWriter::new(io::stdout().lock()))
    }

    /// Writes a JSON object, indented.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *self, value)?;
        writeln!(self)?;
        self.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(tell_reader_gone)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(tell_reader_gone)
    }
}

/// Streaming list, one item per line: a JSON array, plain lines, or rows with columns.
pub(crate) struct Listing {
    output: Output,
    json: bool,
    /// Text before the next item of the array.
    before: &'static str,
    /// Rows on a terminal.
    table: Option<Table>,
    /// How many items there are, if only that is shown.
    count: Option<u64>,
}

impl Listing {
    /// Makes a list on standard output.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            output: Output::new(),
            json,
            before: "[\n",
            table: None,
            count: None,
        }
    }

    /// Makes a list of rows, a table on a terminal, else with tabs between the cells. It may
    /// show nothing but their number.
    pub(crate) fn of_rows(json: bool, header: &[&str], only_count: bool) -> Self {
        let is_table = !json && io::stdout().is_terminal();
        Self {
            table: is_table.then(|| Table::new(header)),
            count: only_count.then_some(0),
            ..Self::new(json)
        }
    }

    /// Begins the array with this text, which ends with `[` and a line break.
    pub(crate) fn begin_with(self, before: &'static str) -> Self {
        Self { before, ..self }
    }

    /// Writes an item in one of the two forms.
    pub(crate) fn push<T: Serialize>(
        &mut self,
        json: impl FnOnce() -> T,
        line: impl FnOnce() -> String,
    ) -> io::Result<()> {
        if !self.json {
            return writeln!(self.output, "{}", line());
        }
        self.output.write_all(self.before.as_bytes())?;
        self.before = NEXT;
        serde_json::to_writer(&mut self.output, &json())?;
        Ok(())
    }

    /// Counts an item, if only the number is shown. Tells whether it is.
    pub(crate) fn only_counts(&mut self) -> bool {
        self.count.as_mut().map(|count| *count += 1).is_some()
    }

    /// Writes an item in JSON, or its cells, which others may have chosen.
    pub(crate) fn row<T: Serialize>(
        &mut self,
        json: impl FnOnce() -> T,
        cells: impl FnOnce() -> Vec<String>,
    ) -> io::Result<()> {
        if self.only_counts() {
            return Ok(());
        }
        let cells = || -> Vec<String> { cells().iter().map(|cell| printable(cell)).collect() };
        match &mut self.table {
            Some(table) => table.row(cells(), &mut self.output),
            None => self.push(json, || cells().join("\t")),
        }
    }

    /// Closes the array, and returns the output for what follows it.
    pub(crate) fn close(mut self) -> io::Result<Output> {
        if let Some(table) = &mut self.table {
            table.flush(&mut self.output)?;
        }
        match self.before {
            _ if !self.json => {}
            NEXT => write!(self.output, "\n]")?,
            begin => write!(self.output, "{}]", begin.trim_end())?,
        }
        Ok(self.output)
    }

    pub(crate) fn end(mut self) -> io::Result<()> {
        let is_json = self.json;
        if let Some(count) = self.count {
            match is_json {
                true => writeln!(self.output, "{{\"count\":{count}}}")?,
                false => writeln!(self.output, "{count}")?,
            }
            return self.output.flush();
        }
        let mut output = self.close()?;
        if is_json {
            writeln!(output)?;
        }
        output.flush()
    }
}

/// Shows a pattern, and its form with U-labels if that differs.
pub(crate) fn name(pattern: &HostPattern) -> String {
    let unicode = pattern.to_unicode();
    if unicode == pattern.as_str() {
        unicode
    } else {
        format!("{pattern} ({unicode})")
    }
}

/// Formats seconds since the Unix epoch, as [`Date`] does.
pub(crate) fn rfc3339(seconds: i64) -> String {
    Date(seconds).to_string()
}

fn tell_reader_gone(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::other(ReaderGone),
        _ => error,
    }
}

/// Text between two items of an array.
const NEXT: &str = ",\n";
/// Records read from the store at once, which bounds the memory of a page.
pub(crate) const PAGE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_all_kinds() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (253_402_300_800, "253402300800"),
            (i64::MIN, "-9223372036854775808"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
