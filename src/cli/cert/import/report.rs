//! Report of an import, while it runs and at its end.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::time::Instant;

use indicatif::{HumanCount, ProgressBar};
use sekisho_certs::printable;
use serde_json::json;

use super::check::Checked;
use super::plan::Plan;
use super::source::Refusal;
use crate::cli::cert::joined;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, Output};
use crate::terminal::progress;

/// Report that counts results and shows them: a progress bar, and the first
/// refusals and notes as they come.
pub(crate) struct Report {
    counts: Counts,
    /// Number of refusals by group.
    groups: BTreeMap<&'static str, u64>,
    notes: u64,
    /// Number of certificates' names that are no host; told with `--named-only`.
    unserved: u64,
    pub(super) named_only: bool,
    /// Number of certificates that will be renewed; none without `--renew`.
    pub(super) renewed: Option<u64>,
    begun: Instant,
    bar: ProgressBar,
    /// JSON array of all refusals, with `--json`.
    json: Option<Listing>,
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
            named_only: false,
            renewed: None,
            begun: Instant::now(),
            bar: progress::bar(total),
            json: None,
        }
    }

    /// Writes one JSON object with all refusals to standard output.
    pub(super) fn begin_json(&mut self) {
        let listing = Listing::new(true);
        self.json = Some(listing.begin_with("{\"refused\":[\n"));
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<()> {
        self.counts.refused += 1;
        let (file, reason) = (&refusal.place, &refusal.reason);
        let before = self.groups.entry(refusal.group).or_default();
        *before += 1;
        let is_shown = *before <= SHOWN_PER_GROUP;
        if let Some(json) = &mut self.json {
            let file = file.to_string_lossy();
            let item = || json!({"file": file, "group": refusal.group, "reason": reason});
            json.push(item, String::new)?;
        } else if is_shown {
            self.say(&format!("refused: {}: {reason}", file.display()));
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
    fn remark(&mut self, note: &str) {
        self.notes += 1;
        if self.notes <= NOTES_SHOWN {
            self.say(&format!("note: {note}"));
        }
    }

    /// Adds a batch that was written.
    pub(super) fn add(&mut self, plan: &Plan) {
        plan.notes.iter().for_each(|note| self.remark(note));
        self.counts = self.counts + plan.counts;
        self.renewed = self.renewed.map(|before| before + plan.renewed);
        self.bar.inc(plan.counts.total());
    }

    /// Removes the bar and shows the suppressed refusals. Returns the counts as
    /// a line (None with JSON), and the command's end.
    pub(crate) fn end(mut self) -> Result<(Option<String>, Ended)> {
        self.bar.finish_and_clear();
        self.tell_groups();
        let ended = Ended::of(self.counts.refused == 0);
        if let Some(json) = self.json.take() {
            self.end_json(json.close()?)?;
            return Ok((None, ended));
        }
        let renewed = self
            .renewed
            .map(|renewed| format!(", {} to be renewed", HumanCount(renewed)));
        let (counts, renewed) = (self.counts, renewed.unwrap_or_default());
        let seconds = self.begun.elapsed().as_secs_f64();
        Ok((Some(format!("{counts}{renewed} in {seconds:.1} s")), ended))
    }

    /// Writes what follows the array of refusals.
    fn end_json(&self, mut output: Output) -> io::Result<()> {
        for (key, count) in [
            ("imported", self.counts.imported),
            ("replaced", self.counts.replaced),
            ("skipped", self.counts.skipped),
            ("older", self.counts.older),
            ("renewed", self.renewed.unwrap_or_default()),
        ] {
            write!(output, ",\"{key}\":{count}")?;
        }
        writeln!(output, "}}")?;
        output.flush()
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
        if self.named_only && self.unserved > 0 {
            let names = HumanCount(self.unserved);
            self.say(&format!(
                "note: {names} further names in these certificates got no host; without \
                 --named-only each name gets one"
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
