//! Results of rows in files of their own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::report::{Report, RowResult};
use super::super::{machine, markdown};
use super::claims;
use super::part::Part;

/// Folder of results. Those of a part are of one machine and one set of versions.
pub(crate) struct Results {
    folder: PathBuf,
    run: Run,
}

/// Machine, versions and size that all results of a part share.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Run {
    pub(super) quick: bool,
    rounds: usize,
    /// Hardware, versions and hashes of builds, each a name and a value.
    pub(super) facts: Vec<(String, String)>,
    /// Command line that began the part.
    #[serde(default)]
    command: String,
}

/// Result of a row.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Kept {
    #[serde(flatten)]
    pub(crate) result: RowResult,
    /// Cases whose rounds differed too much in every attempt.
    pub(crate) unsteady: Vec<String>,
}

impl Results {
    /// Opens a folder for results of these parts. It is made with the first of them.
    ///
    /// # Errors
    /// If it holds results of such a part from another machine or of other versions: these are
    /// never mixed.
    pub(crate) fn open(folder: &Path, parts: &[&Part], run: Run) -> Result<Self> {
        for part in parts {
            let Some(there) = Run::of_part(folder, part)? else {
                continue;
            };
            let names = there.differs(&run);
            ensure!(
                names.is_empty(),
                "{} holds results of another run ({names}); name another folder by --out, or \
                 remove it",
                folder.join(part.id).display(),
            );
        }
        Ok(Self {
            folder: folder.to_owned(),
            run,
        })
    }

    /// Returns a result of which all cases succeeded.
    pub(crate) fn find(&self, part: &str, id: &str) -> Result<Option<RowResult>> {
        let kept = read::<Kept>(&self.file(part, id))?.map(|kept| kept.result);
        Ok(kept.filter(|result| result.failures() == 0))
    }

    /// Returns whether there is nothing left to measure.
    pub(crate) fn is_done(&self, part: &Part) -> Result<bool> {
        for id in part.results(self.run.quick) {
            if self.find(part.id, id)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn keep(&self, part: &str, kept: Kept) -> Result<RowResult> {
        let folder = self.folder.join(part);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let run = folder.join(RUN);
        if !run.exists() {
            write(&run, &self.run)?;
        }
        write(&self.file(part, &kept.result.id), &kept)?;
        Ok(kept.result)
    }

    /// Writes a report of a part, from all of its results.
    pub(crate) fn render(&self, part: &Part) -> Result<()> {
        let ids = part.results(self.run.quick);
        let kept = ids.map(|id| read::<Kept>(&self.file(part.id, id)));
        let kept: Vec<Kept> = kept.filter_map(Result::transpose).collect::<Result<_>>()?;
        let unsteady: Vec<String> = kept.iter().flat_map(Kept::marks).collect();
        let report = Report {
            title: part.title.to_owned(),
            command: self.command(part)?,
            facts: self.run.facts.clone(),
            // From bench/results/paper.
            guide: "../../README.md",
            rows: kept.into_iter().map(|kept| kept.result).collect(),
        };
        let file = self.folder.join(format!("{}.md", part.id));
        let claims = claims::render(part, &report.rows);
        let text = markdown::render(&report) + &unsteady.concat() + &claims;
        fs::write(&file, text)?;
        eprintln!("wrote {}", file.display());
        Ok(())
    }

    /// Returns the command line that began a part, which may have gone on by another.
    fn command(&self, part: &Part) -> Result<String> {
        let begun = Run::of_part(&self.folder, part)?;
        Ok(begun.map_or_else(String::new, |run| run.command))
    }

    fn file(&self, part: &str, id: &str) -> PathBuf {
        self.folder.join(part).join(format!("{id}.json"))
    }
}

impl Kept {
    fn marks(&self) -> Vec<String> {
        let row = &self.result.id;
        let marks = self.unsteady.iter();
        let mark = |case| format!("\n{row}, {case}: its rounds differ by more than a quarter.\n");
        marks.map(mark).collect()
    }
}

impl Run {
    pub(super) fn new(quick: bool, rounds: usize, facts: Vec<(String, String)>) -> Self {
        Self {
            quick,
            rounds,
            facts,
            command: machine::command_line(),
        }
    }

    /// Reads that of a part, if the folder has results of it.
    pub(super) fn of_part(folder: &Path, part: &Part) -> Result<Option<Self>> {
        read(&folder.join(part.id).join(RUN))
    }

    /// Returns the names of what differs.
    pub(super) fn differs(&self, other: &Self) -> String {
        let only = |one: &Self, other: &Self| -> Vec<String> {
            let facts = one.facts.iter().filter(|fact| !other.facts.contains(fact));
            let names = facts.map(|(name, _)| name.clone());
            names.filter(|name| !varies(name)).collect()
        };
        let mut names = [only(self, other), only(other, self)].concat();
        names.sort();
        names.dedup();
        let settings = [
            (self.quick != other.quick, "--quick"),
            (self.rounds != other.rounds, "--rounds"),
        ];
        let settings = settings.iter().filter(|(differs, _)| *differs);
        names.extend(settings.map(|(_, name)| (*name).to_owned()));
        names.join(", ")
    }
}

/// Reads a result; None if there is no such file.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>> {
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let parsed = serde_json::from_slice(&text);
    parsed
        .map(Some)
        .with_context(|| format!("{} is no result", file.display()))
}

/// Writes a result whole or not at all.
fn write(file: &Path, value: &impl Serialize) -> Result<()> {
    let begun = file.with_extension("begun");
    let text = serde_json::to_string_pretty(value)? + "\n";
    fs::write(&begun, text).with_context(|| format!("cannot write {}", begun.display()))?;
    Ok(fs::rename(begun, file)?)
}

/// Returns whether a fact may differ within a part: a measured one, and the commit, which
/// moves on with the text; hashes name the builds.
fn varies(fact: &str) -> bool {
    fact.starts_with("P-256 signature") || fact == "commit"
}

const RUN: &str = "run.json";

#[cfg(test)]
mod tests {
    use super::super::super::report::CaseResult;
    use super::super::super::rows::figure;
    use super::super::cache::CACHE;
    use super::super::fork::FORK;
    use super::*;
    use sekisho_bench::table::Table;

    fn facts(kernel: &str) -> Vec<(String, String)> {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            fact("kernel", kernel),
            fact("P-256 signature on one core", kernel),
        ]
    }

    fn run(kernel: &str) -> Run {
        Run::new(false, 1, facts(kernel))
    }

    fn kept(error: Option<&str>) -> Kept {
        let samples = [vec![(figure::CPU, 1.5)]];
        let case = CaseResult::new("sekisho", &samples, error.map(str::to_owned));
        let mut result = RowResult::failed("row", "a row", "");
        result.cases = vec![case];
        Kept {
            result,
            unsteady: Vec::new(),
        }
    }

    #[test]
    fn a_row_is_found_once_all_its_cases_succeeded() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::open(folder.path(), &[&CACHE], run("6.1")).unwrap();
        assert!(results.find("cache", "row").unwrap().is_none());
        results.keep("cache", kept(Some("it died"))).unwrap();
        assert!(results.find("cache", "row").unwrap().is_none());
        results.keep("cache", kept(None)).unwrap();
        let found = results.find("cache", "row").unwrap().unwrap();
        assert_eq!(found.cases[0].figures[0].name, figure::CPU);
        assert_eq!(found.cases[0].figures[0].values, [1.5]);
    }

    #[test]
    fn a_test_writes_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("floods.json");
        let mut table = Table::new("floods");
        table.add("reset", &vec![("p99 µs", 7.0), ("sent", 9.0)], None);
        table.add("locked", &Vec::new(), Some("too slow"));
        table.write(None).unwrap();
        table.write(Some(&file)).unwrap();
        let kept = read::<Kept>(&file).unwrap().unwrap();
        assert_eq!((&*kept.result.id, kept.result.failures()), ("floods", 1));
        assert_eq!(kept.result.cases[0].figures[1].median, 9.0);
        assert!(kept.unsteady.is_empty());
    }

    #[test]
    fn results_of_another_machine_are_never_mixed_in() {
        let folder = tempfile::tempdir().unwrap();
        let open = |part, run| Results::open(folder.path(), &[part], run);
        let results = open(&CACHE, run("6.1")).unwrap();
        assert!(!folder.path().join("cache").exists());
        results.keep("cache", kept(None)).unwrap();
        let mut later = run("6.1");
        later.facts[1].1 = "another time".to_owned();
        assert!(open(&CACHE, later).is_ok());
        let more = [facts("6.1"), vec![("trained".to_owned(), String::new())]].concat();
        for (run, named) in [
            (run("6.6"), "(kernel)"),
            (Run::new(false, 1, more), "(trained)"),
            (Run::new(false, 1, Vec::new()), "(kernel)"),
            (Run::new(true, 5, facts("6.1")), "(--quick, --rounds)"),
        ] {
            let error = open(&CACHE, run).err().unwrap().to_string();
            assert!(error.contains(named), "{error}");
        }
        // Another part may come from another machine.
        assert!(open(&FORK, run("6.6")).is_ok());
    }
}
