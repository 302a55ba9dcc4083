//! Report of an import, while it runs and at its end.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::time::Instant;

use indicatif::{HumanCount, ProgressBar};
use sekisho_certs::printable;
use serde_json::json;

use super::check::Checked;
use super::source::Refusal;
use crate::cli::cert::joined;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Output;
use crate::terminal::progress;

/// Report that counts results and shows them: a progress bar, and the first
/// refusals and notes as they come.
pub(crate) struct Report {
    counts: Counts,
    /// Number of refusals by group.
    groups: BTreeMap<&'static str, u64>,
    notes: u64,
    /// Number of certificates' names that are no host.
    unserved: u64,
    /// Number of certificates that will be renewed; none without `--renew`.
    renewed: Option<u64>,
    begun: Instant,
    bar: ProgressBar,
    /// JSON output of all refusals and counts, with `--json`.
    json: Option<Json>,
}

/// Counts of pairs by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Pairs whose hosts had no certificate of that type.
    pub(super) imported: u64,
    /// Pairs that replaced a certificate of at least one host.
    pub(super) replaced: u64,
    /// Pairs that changed nothing.
    pub(super) skipped: u64,
    /// Pairs that changed nothing, since the stored certificate was issued
    /// later.
    pub(super) older: u64,
    /// Pairs that were refused.
    pub(super) refused: u64,
}

impl Report {
    /// Makes a report, with a progress bar if standard error is a terminal.
    /// Only then is `total` called.
    pub(crate) fn new(total: impl FnOnce() -> Option<u64>) -> Self {
        Self {
            counts: Counts::default(),
            groups: BTreeMap::new(),
            notes: 0,
            unserved: 0,
            renewed: None,
            begun: Instant::now(),
            bar: progress::bar(total),
            json: None,
        }
    }

    /// Writes one JSON object with all refusals to standard output.
    pub(super) fn with_json(mut self) -> Self {
        self.json = Some(Json::new());
        self
    }

    /// Reports how many certificates will be renewed, too.
    pub(super) fn with_renewal(mut self) -> Self {
        self.renewed = Some(0);
        self
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<()> {
        self.counts.refused += 1;
        let Refusal {
            path,
            group,
            reason,
        } = refusal;
        let before = self.groups.entry(group).or_default();
        *before += 1;
        let is_shown = *before <= SHOWN_PER_GROUP;
        if let Some(json) = &mut self.json {
            json.refused(refusal)?;
        } else if is_shown {
            self.say(&format!("refused: {}: {reason}", path.display()));
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Shows notes on repairs.
    pub(super) fn note(&mut self, pair: &Checked) {
        self.unserved += pair.unserved as u64;
        for note in &pair.notes {
            self.remark(&format!("{}: {note}", joined(&pair.hosts)));
        }
    }

    /// Shows a note.
    pub(super) fn remark(&mut self, note: &str) {
        self.notes += 1;
        if self.notes <= NOTES_SHOWN {
            self.say(&format!("note: {note}"));
        }
    }

    pub(super) fn add(&mut self, counts: Counts) {
        self.counts = self.counts + counts;
        self.bar.inc(counts.total());
    }

    /// Adds certificates that will be renewed.
    pub(super) fn add_renewed(&mut self, renewed: u64) {
        self.renewed = self.renewed.map(|before| before + renewed);
    }

    /// Returns whether there was no pair at all.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.total() == 0
    }

    /// Removes the bar and shows the suppressed refusals. Returns the counts as
    /// a line (None with JSON), and the command's end.
    pub(crate) fn end(mut self) -> Result<(Option<String>, Ended)> {
        self.bar.finish_and_clear();
        self.tell_groups();
        let ended = match self.counts.refused {
            0 => Ended::Done,
            _ => Ended::PartlyRefused,
        };
        if let Some(json) = self.json.take() {
            json.end(self.counts, self.renewed)?;
            return Ok((None, ended));
        }
        let renewed = self
            .renewed
            .map(|renewed| format!(", {} to be renewed", HumanCount(renewed)));
        let (counts, renewed) = (self.counts, renewed.unwrap_or_default());
        let seconds = self.begun.elapsed().as_secs_f64();
        Ok((Some(format!("{counts}{renewed} in {seconds:.1} s")), ended))
    }

    fn tell_groups(&self) {
        for (group, count) in &self.groups {
            if self.json.is_none() && *count > SHOWN_PER_GROUP {
                let more = HumanCount(count - SHOWN_PER_GROUP);
                self.say(&format!("refused: {more} more: {group}; --json lists all"));
            }
        }
        if self.notes > NOTES_SHOWN {
            let more = HumanCount(self.notes - NOTES_SHOWN);
            self.say(&format!("note: {more} more notes are left out"));
        }
        if self.unserved > 0 {
            let names = HumanCount(self.unserved);
            self.say(&format!(
                "note: {names} further names in these certificates got no host; --all-names \
                 imports all names of each certificate"
            ));
        }
    }

    /// Removes the bar; returns the text for an aborted import.
    pub(super) fn stop(self) -> String {
        self.bar.finish_and_clear();
        let counts = self.counts;
        format!("stopped: {counts}; what was stored stays, run it again to go on")
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{}", printable(line)));
    }
}

/// JSON object of `--json`, written incrementally.
struct Json {
    output: Output,
    begun: bool,
}

impl Json {
    fn new() -> Self {
        Self {
            output: Output::new(),
            begun: false,
        }
    }

    fn refused(&mut self, refusal: &Refusal) -> io::Result<()> {
        let before = if self.begun {
            ",\n"
        } else {
            "{\"refused\":[\n"
        };
        self.begun = true;
        self.output.write_all(before.as_bytes())?;
        let file = refusal.path.to_string_lossy();
        let line = json!({"file": file, "group": refusal.group, "reason": refusal.reason});
        serde_json::to_writer(&mut self.output, &line)?;
        Ok(())
    }

    fn end(mut self, counts: Counts, renewed: Option<u64>) -> io::Result<()> {
        let before = if self.begun { "\n]" } else { "{\"refused\":[]" };
        let Counts {
            imported,
            replaced,
            skipped,
            older,
            ..
        } = counts;
        writeln!(
            self.output,
            "{before},\"imported\":{imported},\"replaced\":{replaced},\"skipped\":{skipped},\"older\":{older},\"renewed\":{}}}",
            renewed.unwrap_or_default()
        )?;
        self.output.flush()
    }
}

impl Counts {
    fn total(self) -> u64 {
        self.imported + self.replaced + self.skipped + self.older + self.refused
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            imported: self.imported + other.imported,
            replaced: self.replaced + other.replaced,
            skipped: self.skipped + other.skipped,
            older: self.older + other.older,
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
            "imported {imported}, replaced {replaced}, skipped {skipped} (the same)"
        )?;
        if self.older > 0 {
            write!(f, " and {} (older)", HumanCount(self.older))?;
        }
        write!(f, ", refused {refused}")
    }
}

/// Refusals shown per group: enough to see their cause.
const SHOWN_PER_GROUP: u64 = 3;
/// Notes shown, which bounds the output if every chain is repaired.
const NOTES_SHOWN: u64 = 100;
