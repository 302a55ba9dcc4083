//! Report of an import, while it runs and at its end.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use indicatif::{HumanCount, ProgressBar};
use rustix::fs::OFlags;
use sekisho_certs::{HostPattern, printable};
use serde::Serialize;
use serde_json::{Value, json};

use super::check::Checked;
use super::plan::Plan;
use super::prune::SeenHosts;
use super::settled::Settled;
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
    /// Number of certificates that will be renewed; none without `--renew`.
    pub(super) renewed: Option<u64>,
    /// True if nothing is written.
    pub(super) is_dry_run: bool,
    begun: Instant,
    bar: ProgressBar,
    /// JSON array of all refusals, with `--json`.
    json: Option<Listing>,
    /// File of `--report`, with its path.
    file: Option<(PathBuf, BufWriter<File>)>,
    /// What the sources have, with `--prune`.
    pub(super) seen: Option<SeenHosts>,
    /// Numbers of the hosts that were made, of certificates where there were none, and of what was
    /// removed, by the source. Earlier rounds of a watch count, too: the first two since the last
    /// one that pruned, the third within a day. A dry run makes nothing.
    pub(super) changes: HashMap<Arc<str>, [u64; 3]>,
    /// Hosts that the import gave a certificate.
    pub(super) settled: Settled,
    /// Refusals that are not told yet, with `--watch`.
    pub(super) held: Option<Vec<Refusal>>,
}

/// Result of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Its hosts had no certificate of that type.
    Imported,
    /// At least one host had another certificate.
    Replaced,
    /// Nothing changed.
    Skipped,
    /// Nothing changed, since the stored certificate was issued later.
    Older,
    /// None of its hosts is there, and none is to be made.
    WithoutHost,
    /// The source no longer has it.
    Removed,
    Refused,
}

/// Numbers of pairs by [`Outcome`].
#[derive(Clone, Copy, Default)]
struct Counts([u64; 7]);

impl Report {
    /// Makes a report, with a progress bar if standard error is a terminal.
    /// Only then is `total` called.
    pub(crate) fn new(total: impl FnOnce() -> Option<u64>) -> Self {
        Self {
            counts: Counts::default(),
            groups: BTreeMap::new(),
            notes: 0,
            renewed: None,
            is_dry_run: false,
            begun: Instant::now(),
            bar: progress::bar(total),
            json: None,
            file: None,
            seen: None,
            changes: HashMap::new(),
            settled: Settled::default(),
            held: None,
        }
    }

    /// Begins the file of `--report`, whose lines hold places and names, never keys. It may be a
    /// device or a pipe, as `/dev/stdout`, in whose place no other file must come. A link to a file
    /// is not followed: a tenant may have made it, and standard output writes at its own place.
    pub(super) fn begin_file(&mut self, path: &Path) -> Result<()> {
        let is_stream = fs::metadata(path).is_ok_and(|file| !file.is_file());
        let follows = is_stream && path.starts_with("/dev");
        let flags = [OFlags::NOFOLLOW, OFlags::empty()][usize::from(follows)];
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.custom_flags(flags.bits().cast_signed());
        let what = || format!("{}, where no link to a file is followed", path.display());
        let file = options.open(path).with_context(what)?;
        self.file = Some((path.to_owned(), BufWriter::new(file)));
        Ok(())
    }

    /// Adds a line to that file, if there is one.
    fn write_line(&mut self, line: impl FnOnce() -> Value) -> Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        writeln!(file, "{}", line()).with_context(|| path.display().to_string())
    }

    /// Writes one JSON object with all refusals to standard output.
    pub(super) fn begin_json(&mut self) {
        self.json = Some(Listing::new(true).begin_with("{\"refused\":[\n"));
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<()> {
        if let Some(seen) = &mut self.seen {
            seen.refuse(refusal);
        }
        if let Some(held) = self.held.as_mut().filter(|held| held.len() < MAX_HELD) {
            held.push(refusal.clone());
            return Ok(());
        }
        self.counts.add(Outcome::Refused);
        let (file, group, reason) = (&refusal.place, refusal.group, &refusal.reason);
        let place = file.to_string_lossy();
        self.write_line(|| {
            json!({"place": place, "result": Outcome::Refused, "group": group, "reason": reason})
        })?;
        let before = self.groups.entry(refusal.group).or_default();
        *before += 1;
        let is_shown = *before <= SHOWN_PER_GROUP;
        if let Some(json) = &mut self.json {
            let item = || json!({"file": place, "group": group, "reason": reason});
            json.push(item, String::new)?;
        } else if is_shown {
            self.say(&format!("refused: {}: {reason}", file.display()));
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Shows notes on repairs.
    pub(super) fn note(&mut self, pair: &Checked) {
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
    pub(super) fn add(&mut self, batch: &[Checked], plan: &Plan) -> Result<()> {
        plan.notes.iter().for_each(|note| self.remark(note));
        for refusal in &plan.refused {
            self.refuse(refusal)?;
        }
        for (pair, outcome) in batch.iter().zip(&plan.outcomes) {
            self.counts.add(*outcome);
            if let Some(seen) = &mut self.seen {
                seen.add(pair, plan.ids.get(&pair.digest).copied());
            }
            let is_written = matches!(outcome, Outcome::Imported | Outcome::Replaced);
            // The ids of a dry run are others in the end.
            let has_id = is_written && !self.is_dry_run;
            let is_first = *outcome == Outcome::Imported && has_id;
            if let Some(source) = pair.source_name.as_ref().filter(|_| is_first) {
                self.changes.entry(Arc::clone(source)).or_default()[1] += 1;
            }
            self.write_line(|| {
                let id = plan.ids.get(&pair.digest).copied();
                let id = id.filter(|id| has_id || plan.known.contains(id));
                let hosts: Vec<_> = pair.hosts.iter().map(HostPattern::as_str).collect();
                let (place, id) = (pair.place.to_string_lossy(), id.map(|id| id.to_string()));
                json!({"place": place, "result": outcome, "hosts": hosts, "id": id})
            })?;
        }
        for source in plan.made.iter().filter(|_| !self.is_dry_run) {
            self.changes.entry(Arc::clone(source)).or_default()[0] += 1;
        }
        self.renewed = self.renewed.map(|before| before + plan.renewed);
        self.bar.inc(plan.outcomes.len() as u64);
        Ok(())
    }

    /// Adds a host that is removed, or a certificate of it.
    pub(super) fn remove(&mut self, host: &HostPattern, source: &Arc<str>) -> Result<()> {
        self.counts.add(Outcome::Removed);
        self.changes.entry(Arc::clone(source)).or_default()[2] += 1;
        let (place, hosts) = (&**source, [host.as_str()]);
        self.write_line(|| json!({"place": place, "result": Outcome::Removed, "hosts": hosts}))
    }

    /// Removes the bar and shows the suppressed refusals. Returns the counts as
    /// a line (None with JSON), and the command's end.
    pub(crate) fn end(mut self) -> Result<(Option<String>, Ended)> {
        self.bar.finish_and_clear();
        self.tell_groups();
        if let Some((path, file)) = &mut self.file {
            file.flush().with_context(|| path.display().to_string())?;
        }
        let ended = Ended::of(self.counts.of(Outcome::Refused) == 0);
        if let Some(json) = self.json.take() {
            self.end_json(json.close()?)?;
            return Ok((None, ended));
        }
        let renewed = self.renewed.map(HumanCount);
        let renewed = renewed.map(|count| format!(", {count} to be renewed"));
        let (counts, renewed) = (self.counts, renewed.unwrap_or_default());
        let seconds = self.begun.elapsed().as_secs_f64();
        let would = self.is_dry_run.then_some("dry run: would have ");
        let would = would.unwrap_or_default();
        let line = format!("{would}{counts}{renewed} in {seconds:.1} s");
        Ok((Some(line), ended))
    }

    /// Ends the report of a round; returns its line if that changed anything.
    pub(super) fn end_if_changed(self) -> Result<Option<String>> {
        let changes = [Outcome::Imported, Outcome::Replaced, Outcome::Removed];
        let has_changed = changes.iter().any(|one| self.counts.of(*one) > 0);
        Ok(self.end()?.0.filter(|_| has_changed))
    }

    /// Writes what follows the array of refusals.
    fn end_json(&self, mut output: Output) -> io::Result<()> {
        for (key, count) in KEYS.split(' ').zip(self.counts.0) {
            write!(output, ",\"{key}\":{count}")?;
        }
        let (renewed, is_dry) = (self.renewed.unwrap_or_default(), self.is_dry_run);
        writeln!(output, ",\"renewed\":{renewed},\"dry_run\":{is_dry}}}")?;
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
    fn add(&mut self, outcome: Outcome) {
        self.0[outcome as usize] += 1;
    }

    fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.0.map(HumanCount);
        let [imported, replaced, skipped, older, ..] = counts;
        let [.., without_host, removed, refused] = counts;
        write!(
            f,
            "imported {imported}, replaced {replaced}, skipped {skipped} (the same)"
        )?;
        if older.0 > 0 {
            write!(f, " and {older} (older)")?;
        }
        if without_host.0 > 0 {
            write!(f, ", {without_host} without host")?;
        }
        if removed.0 > 0 {
            write!(f, ", removed {removed}")?;
        }
        write!(f, ", refused {refused}")
    }
}

/// Keys of the counts in JSON, without the last one: that has an array of its own.
const KEYS: &str = "imported replaced skipped older without_host removed";
/// Refusals shown per group: enough to see their cause.
const SHOWN_PER_GROUP: u64 = 3;
/// Refusals that are held, some 400 bytes each: 4 MB. Further ones are told at once.
const MAX_HELD: usize = 10_000;
/// Notes shown, which bounds the output if every chain is repaired.
const NOTES_SHOWN: u64 = 100;
