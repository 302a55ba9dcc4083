//! Reads lines of a list, each with its place.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::source::Refusal;

/// Lines of a file, without their ends. The place of a line is `FILE:NUMBER`.
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: usize,
    has_ended: bool,
}

impl Lines {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::new(File::open(path)?),
            number: 0,
            has_ended: false,
        })
    }

    fn place(&self) -> PathBuf {
        let mut place = self.path.clone().into_os_string();
        place.push(format!(":{}", self.number));
        place.into()
    }

    /// Refuses what can't be skipped: the rest of the list is left out.
    fn end(&mut self, why: &str) -> Refusal {
        self.has_ended = true;
        let reason = format!("{why}; the rest of the list is left out");
        Refusal::new(self.place(), UNREADABLE, reason)
    }
}

impl Iterator for Lines {
    type Item = Result<(PathBuf, String), Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        self.number += 1;
        let mut line = Vec::new();
        let mut bounded = self.reader.by_ref().take(MAX_LINE + 1);
        Some(match bounded.read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(read) if read as u64 > MAX_LINE => Err(self.end("the line is too long")),
            Ok(_) => match String::from_utf8(line) {
                Ok(line) => Ok((self.place(), line.trim_end().to_owned())),
                Err(_) => Err(Refusal::new(self.place(), UNREADABLE, "is not UTF-8")),
            },
            Err(error) => Err(self.end(&error.to_string())),
        })
    }
}

/// Group of lines that can't be read.
pub(super) const UNREADABLE: &str = "a line of a list can't be read";
/// Bytes of a line: as many as HAProxy takes.
const MAX_LINE: u64 = 65_535;
