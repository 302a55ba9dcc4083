//! What an import says while it runs and when it ends.

use std::fmt;
use std::time::Instant;

use indicatif::{HumanCount, ProgressBar};

use super::check::Checked;
use super::source::Refusal;
use crate::cli::cert::joined;
use crate::cli::failure::Ended;
use crate::cli::progress;

/// Counts what became of the pairs, and shows it: a bar on a terminal,
/// refusals as they come.
pub(crate) struct Report {
    counts: Counts,
    notes: u64,
    begun: Instant,
    bar: ProgressBar,
}

/// What became of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// No host had a certificate of that type before.
    pub(super) imported: u64,
    /// At least one host had another one.
    pub(super) replaced: u64,
    /// Nothing changed.
    pub(super) skipped: u64,
    /// Not stored.
    pub(super) refused: u64,
}

impl Report {
    /// With a bar if standard error is a terminal; `total` is asked only then.
    pub(crate) fn new(total: impl FnOnce() -> Option<u64>) -> Self {
        Self {
            counts: Counts::default(),
            notes: 0,
            begun: Instant::now(),
            bar: progress::bar(total),
        }
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        self.counts.refused += 1;
        let Refusal { path, reason } = refusal;
        match self.counts.refused {
            ..=LINES_SHOWN => self.say(&format!("refused: {}: {reason}", path.display())),
            number if number == LINES_SHOWN + 1 => {
                self.say("refused: further ones are only counted");
            }
            _ => {}
        }
        self.bar.inc(1);
    }

    /// Says what was repaired.
    pub(super) fn note(&mut self, pair: &Checked) {
        let hosts = || joined(&pair.hosts);
        for note in &pair.notes {
            self.notes += 1;
            if self.notes <= LINES_SHOWN {
                self.say(&format!("note: {}: {note}", hosts()));
            }
        }
    }

    pub(super) fn add(&mut self, counts: Counts) {
        self.counts = self.counts + counts;
        self.bar.inc(counts.total());
    }

    /// Takes the bar away; gives the counts as a line and how the command
    /// ended.
    pub(super) fn end(self) -> (String, Ended) {
        self.bar.finish_and_clear();
        let ended = match self.counts.refused {
            0 => Ended::Done,
            _ => Ended::PartlyRefused,
        };
        let seconds = self.begun.elapsed().as_secs_f64();
        (format!("{} in {seconds:.1} s", self.counts), ended)
    }

    /// Takes the bar away; gives what to say of an import that ends before its
    /// time.
    pub(super) fn stop(self) -> String {
        self.bar.finish_and_clear();
        let counts = self.counts;
        format!("stopped: {counts}; what was stored stays, run it again to go on")
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Counts {
    fn total(self) -> u64 {
        self.imported + self.replaced + self.skipped + self.refused
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            imported: self.imported + other.imported,
            replaced: self.replaced + other.replaced,
            skipped: self.skipped + other.skipped,
            refused: self.refused + other.refused,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [imported, replaced, skipped, refused] =
            [self.imported, self.replaced, self.skipped, self.refused].map(HumanCount);
        write!(
            f,
            "imported {imported}, replaced {replaced}, skipped {skipped} (the same), refused {refused}"
        )
    }
}

/// So that a folder of something else altogether does not fill the terminal.
const LINES_SHOWN: u64 = 1000;
