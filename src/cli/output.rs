//! Writes standard output: text for people, JSON for programs.

use std::io::{self, BufWriter, StdoutLock, Write};

use sekisho_certs::HostPattern;
use serde::Serialize;

use crate::cli::failure::ReaderGone;

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

/// Streaming list, one item per line: a JSON array or plain lines.
pub(crate) struct Listing<'a> {
    output: &'a mut Output,
    json: bool,
    begun: bool,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(output: &'a mut Output, json: bool) -> Self {
        Self {
            output,
            json,
            begun: false,
        }
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
        let before: &[u8] = if self.begun { b",\n" } else { b"[\n" };
        self.output.write_all(before)?;
        self.begun = true;
        serde_json::to_writer(&mut *self.output, &json())?;
        Ok(())
    }

    pub(crate) fn end(self) -> io::Result<()> {
        if self.json {
            let closing: &[u8] = if self.begun { b"\n]\n" } else { b"[]\n" };
            self.output.write_all(closing)?;
        }
        self.output.flush()
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

/// Formats seconds since the Unix epoch as RFC 3339 in UTC.
pub(crate) fn rfc3339(seconds: i64) -> String {
    let (days, second) = (
        seconds.div_euclid(SECONDS_PER_DAY),
        seconds.rem_euclid(SECONDS_PER_DAY),
    );
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Converts a day since the Unix epoch to year, month and day of the proleptic
/// Gregorian calendar. Years begin in March here, to put leap days last.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

fn tell_reader_gone(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::other(ReaderGone),
        _ => error,
    }
}

pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
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
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
