//! What an import says while it runs and when it ends.

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
use crate::cli::failure::{Ended, Result};
use crate::cli::output::Output;
use crate::cli::progress;

/// Counts what became of the pairs, and shows it: a bar on a terminal, the
/// first refusals of each group and the first notes as they come.
pub(crate) struct Report {
    counts: Counts,
    /// How many were refused, by what they have in common.
    groups: BTreeMap<&'static str, u64>,
    notes: u64,
    /// Names of certificates that no host got.
    unserved: u64,
    begun: Instant,
    bar: ProgressBar,
    /// All refusals and the counts go here, if JSON is asked for.
    json: Option<Json>,
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
    /// Nothing changed, since the stored certificate was issued later.
    pub(super) older: u64,
    /// Not stored.
    pub(super) refused: u64,
}

impl Report {
    /// With a bar if standard error is a terminal; `total` is asked only then.
    pub(crate) fn new(total: impl FnOnce() -> Option<u64>) -> Self {
        Self {
            counts: Counts::default(),
            groups: BTreeMap::new(),
            notes: 0,
            unserved: 0,
            begun: Instant::now(),
            bar: progress::bar(total),
            json: None,
        }
    }

    /// As one JSON object on standard output, with all refusals.
    pub(super) fn with_json(mut self) -> Self {
        self.json = Some(Json::new());
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

    /// Says what was repaired.
    pub(super) fn note(&mut self, pair: &Checked) {
        self.unserved += pair.unserved as u64;
        for note in &pair.notes {
            self.remark(&format!("{}: {note}", joined(&pair.hosts)));
        }
    }

    /// Says what may surprise.
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

    /// Whether nothing came to it at all.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.total() == 0
    }

    /// Takes the bar away and says what was held back; gives the counts as a
    /// line, none if they went out as JSON, and how the command ended.
    pub(crate) fn end(mut self) -> Result<(Option<String>, Ended)> {
        self.bar.finish_and_clear();
        self.tell_groups();
        let ended = match self.counts.refused {
            0 => Ended::Done,
            _ => Ended::PartlyRefused,
        };
        if let Some(json) = self.json.take() {
            json.end(self.counts)?;
            return Ok((None, ended));
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        Ok((Some(format!("{} in {seconds:.1} s", self.counts)), ended))
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

    /// Takes the bar away; gives what to say of an import that ends before its
    /// time.
    pub(super) fn stop(self) -> String {
        self.bar.finish_and_clear();
        let counts = self.counts;
        format!("stopped: {counts}; what was stored stays, run it again to go on")
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{}", printable(line)));
    }
}

/// The object of `--json`, written as it grows.
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

    fn end(mut self, counts: Counts) -> io::Result<()> {
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
            "{before},\"imported\":{imported},\"replaced\":{replaced},\"skipped\":{skipped},\"older\":{older}}}"
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

/// Enough to see what is wrong with all of a group.
const SHOWN_PER_GROUP: u64 = 3;
/// Bounds the lines of a folder in which each chain is repaired.
const NOTES_SHOWN: u64 = 100;
