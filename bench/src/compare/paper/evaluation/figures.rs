//! Kept results by the names that the text has for their figures.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::super::super::mark;
use super::super::super::markdown::number;
use super::super::super::report::{CaseResult, Figure};
use super::super::SPREAD;
use super::super::kept::{Kept, Run, read};
use super::super::part::PARTS;
use sekisho_bench::table::thousands;

#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Rows by part and id, such as `fork/fork-100`.
    rows: BTreeMap<String, Kept>,
    /// Machine and versions of each part.
    runs: BTreeMap<&'static str, Run>,
}

impl Figures {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let (mut rows, mut runs) = (BTreeMap::new(), BTreeMap::new());
        for part in PARTS {
            if let Some(run) = Run::of_part(folder, part)? {
                runs.insert(part.id, run);
            }
            for id in part.results(false) {
                let name = format!("{}/{id}", part.id);
                if let Some(kept) = read(&folder.join(format!("{name}.json")))? {
                    rows.insert(name, kept);
                }
            }
        }
        ensure!(!runs.is_empty(), "{} holds no results", folder.display());
        Ok(Self { rows, runs })
    }

    /// Returns what stands in the text for a name.
    pub(super) fn value(&self, name: &str) -> Result<String> {
        let parts: Vec<&str> = name.split('|').map(str::trim).collect();
        match *parts {
            [fact, part] if fact.starts_with("fact ") => self.fact(fact[5..].trim(), part),
            [table, rows] if table.starts_with("table ") => self.table(&table[6..], rows),
            [cases, row] if cases.starts_with("cases ") => self.cases(&cases[6..], row),
            [fit, figure, rows] if fit.starts_with("fit ") => self.fit(&fit[4..], figure, rows),
            [at, case, figure, rows] if at.starts_with("at ") => {
                self.at(&at[3..], case, figure, rows)
            }
            [row, case, name] => Ok(shown(figure(self.case(row, case)?, name)?.median)),
            [row, case, name, "ratio"] => {
                let ratio = figure(self.case(row, case)?, name)?.ratio;
                Ok(format!("{:.2}", ratio.context("it has no ratio")?))
            }
            _ => bail!("this names no figure; --help shows how"),
        }
    }

    fn fact(&self, name: &str, part: &str) -> Result<String> {
        let run = self.runs.get(part).context("there is no such part")?;
        let found = run.facts.iter().find(|(other, _)| other == name);
        let (_, value) = found.context("there is no such fact")?;
        Ok(value.clone())
    }

    /// Returns a line for each row and a column for each of their cases, or the other way
    /// round if there are more cases than rows.
    fn table(&self, name: &str, rows: &str) -> Result<String> {
        let rows = self.named(rows)?;
        for (id, row) in &rows {
            has_figure(row, name).with_context(|| (*id).to_owned())?;
        }
        let mut labels: Vec<&str> = Vec::new();
        for case in rows.iter().flat_map(|(_, row)| &row.result.cases) {
            if !labels.contains(&&*case.label) {
                labels.push(&case.label);
            }
        }
        let ids: Vec<String> = rows.iter().map(|(id, _)| format!("`{id}`")).collect();
        if labels.len() <= rows.len() {
            let of_row =
                |(_, row): &(_, &Kept)| labels.iter().map(|l| cell(row, l, name)).collect();
            let lines = ids.iter().map(String::as_str).zip(rows.iter().map(of_row));
            return Ok(lines_below(name, &labels, lines));
        }
        let of_case = |label: &&str| rows.iter().map(|(_, row)| cell(row, label, name)).collect();
        let lines = labels.iter().copied().zip(labels.iter().map(of_case));
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        Ok(lines_below(name, &ids, lines))
    }

    /// Returns a line for each case of a row, and a column for each figure.
    fn cases(&self, names: &str, row: &str) -> Result<String> {
        let row = self.row(row)?;
        let names: Vec<&str> = names.split(';').map(str::trim).collect();
        for name in &names {
            has_figure(row, name)?;
        }
        let cases = row.result.cases.iter().map(|case| &*case.label);
        let lines = cases.map(|label| (label, names.iter().map(|n| cell(row, label, n)).collect()));
        Ok(lines_below("", &names, lines))
    }

    /// Returns the line by least squares through a figure of all rows that have it.
    fn fit(&self, case: &str, name: &str, rows: &str) -> Result<String> {
        let (start, slope) = line(&self.points(case, name, rows)?)?;
        let sign = if slope < 0.0 { '-' } else { '+' };
        let slope = significant(slope.abs());
        Ok(format!("{} {sign} {slope} n", shown(start)))
    }

    /// Returns where that line is at a number of hosts, in another unit: `2000000 / 1024`.
    fn at(&self, place: &str, case: &str, name: &str, rows: &str) -> Result<String> {
        let (hosts, unit) = place.split_once('/').unwrap_or((place, "1"));
        let (start, slope) = line(&self.points(case, name, rows)?)?;
        let at = start + slope * hosts.trim().parse::<f64>()?;
        Ok(shown(at / unit.trim().parse::<f64>()?))
    }

    fn points(&self, case: &str, name: &str, rows: &str) -> Result<Vec<(f64, f64)>> {
        let mut points = Vec::new();
        for (_, row) in self.named(rows)? {
            let found = row.result.cases.iter().find(|other| other.label == case);
            if let Some(figure) = found.and_then(|case| case.figure(name)) {
                points.push((row.result.hosts as f64, figure.median));
            }
        }
        Ok(points)
    }

    fn named<'a>(&'a self, rows: &'a str) -> Result<Vec<(&'a str, &'a Kept)>> {
        let id = |name: &'a str| name.split_once('/').map_or(name, |(_, id)| id);
        let names = rows.split_whitespace();
        names.map(|name| Ok((id(name), self.row(name)?))).collect()
    }

    fn row(&self, name: &str) -> Result<&Kept> {
        let row = self.rows.get(name);
        row.with_context(|| format!("there is no row {name}"))
    }

    fn case(&self, row: &str, label: &str) -> Result<&CaseResult> {
        let mut cases = self.row(row)?.result.cases.iter();
        let case = cases.find(|case| case.label == label);
        case.with_context(|| format!("{row} has no case {label:?}"))
    }
}

fn has_figure(row: &Kept, name: &str) -> Result<()> {
    let mut cases = row.result.cases.iter();
    let has = cases.any(|case| case.figure(name).is_some());
    ensure!(has, "no case has a figure {name:?}");
    Ok(())
}

fn figure<'a>(case: &'a CaseResult, name: &str) -> Result<&'a Figure> {
    ensure!(case.error.is_none(), "{} failed", case.label);
    ensure!(case.series.ended.is_none(), "{} ended early", case.label);
    let figure = case.figure(name);
    figure.with_context(|| format!("{} has no figure {name:?}", case.label))
}

/// Returns a table of these lines, each with a name before its cells.
fn lines_below<'a>(
    corner: &str,
    heads: &[&str],
    lines: impl Iterator<Item = (&'a str, Vec<String>)>,
) -> String {
    let mut text = format!("| {corner} | {} |\n|", heads.join(" | "));
    text.push_str(&" --- |".repeat(heads.len() + 1));
    for (name, cells) in lines {
        let _ = write!(text, "\n| {name} | {} |", cells.join(" | "));
    }
    text
}

/// Returns a cell of a table: the median, with marks if the rounds differ too much, if the
/// client was the slower one, if the server had ended before, and if a test found fault with it.
fn cell(row: &Kept, label: &str, name: &str) -> String {
    let Some(case) = row.result.cases.iter().find(|case| case.label == label) else {
        return String::new();
    };
    let differs = case
        .figure(name)
        .is_some_and(|figure| figure.spread() > SPREAD);
    let marks = [
        (differs, " ±"),
        (mark::is_of_client(case, name), " ᶜ"),
        (case.series.ended.is_some(), " †"),
        (case.error.is_some(), " ‡"),
    ];
    let marks: String = marks
        .iter()
        .filter_map(|(is_marked, mark)| is_marked.then_some(*mark))
        .collect();
    match (case.figure(name), &case.error) {
        (Some(figure), _) => format!("{}{marks}", shown(figure.median)),
        (None, Some(_)) => "failed".to_owned(),
        (None, None) => marks.trim_start().to_owned(),
    }
}

/// Formats a figure: counts without a fraction, and commas between thousands.
fn shown(value: f64) -> String {
    let is_count = value.fract() == 0.0 && value >= 0.0;
    match is_count || value >= 999.5 {
        true => thousands(value.round() as i64),
        false => number(value),
    }
}

/// Returns start and slope of the line by least squares.
fn line(points: &[(f64, f64)]) -> Result<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let products = points.iter().map(|point| (point.0 - x) * (point.1 - y));
    let squares = points.iter().map(|point| (point.0 - x).powi(2));
    let squares = squares.sum::<f64>();
    ensure!(squares > 0.0, "a line needs two numbers of hosts");
    let slope = products.sum::<f64>() / squares;
    Ok((y - slope * x, slope))
}

/// Formats a slope's size, which may be far below 1, with two digits.
fn significant(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value >= 1.0 => shown(value),
        _ => {
            let digits = (1.0 - value.log10().floor()) as usize;
            format!("{value:.digits$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::report::RowResult;
    use crate::compare::rows::figure;

    fn kept(hosts: usize, rounds: &[(&str, &[f64])]) -> Kept {
        let mut result = RowResult::failed("row", "a row", "");
        result.hosts = hosts;
        let case = |(label, values): &(&str, &[f64])| {
            let samples: Vec<_> = values
                .iter()
                .map(|value| vec![(figure::START, *value)])
                .collect();
            CaseResult::new(*label, &samples, None)
        };
        let first = case(&rounds[0]);
        result.cases = rounds.iter().map(case).collect();
        result.cases[1..]
            .iter_mut()
            .for_each(|case| case.divide_by(&first));
        Kept {
            result,
            unsteady: Vec::new(),
        }
    }

    fn figures() -> Figures {
        let one = kept(1, &[("nginx", &[10.0]), ("sekisho", &[5.0])]);
        let facts = vec![("CPU".to_owned(), "fast".to_owned())];
        let many = kept(1_001, &[("nginx", &[220.0, 260.0, 290.0])]);
        let fell = kept(1_001, &[("nginx", &[8.0])]);
        let rows = [("p/one", one), ("p/many", many), ("p/fell", fell)];
        Figures {
            rows: rows.map(|(name, row)| (name.to_owned(), row)).into(),
            runs: [("p", Run::new(false, 1, facts))].into(),
        }
    }

    #[test]
    fn names_stand_for_medians_ratios_and_facts() {
        let value = |name| figures().value(name).unwrap();
        assert_eq!(value("p/one | sekisho | start ms"), "5");
        assert_eq!(value("p/one | sekisho | start ms | ratio"), "0.50");
        assert_eq!(value("fact CPU | p"), "fast");
        assert_eq!(
            value("fit nginx | start ms | p/one p/many"),
            "9.75 + 0.25 n"
        );
        assert_eq!(
            value("fit nginx | start ms | p/one p/fell"),
            "10.0 - 0.0020 n"
        );
        assert_eq!(
            value("at 4000 / 10 | nginx | start ms | p/one p/many"),
            "101"
        );
        for missing in [
            "p/two | nginx | start ms",
            "p/one | h2o | start ms",
            "p/one",
            "fact CPU | q",
            "fact kernel | p",
        ] {
            assert!(figures().value(missing).is_err(), "{missing}");
        }
        assert!(figures().value("fit nginx | start ms | p/one").is_err());
    }

    #[test]
    fn tables_mark_unsteady_figures_and_leave_others_empty() {
        let table = figures().value("table start ms | p/one p/many").unwrap();
        let wanted = "| start ms | nginx | sekisho |\n| --- | --- | --- |\n\
                      | `one` | 10 | 5 |\n| `many` | 260 ± |  |";
        assert_eq!(table, wanted);
        let turned = figures().value("table start ms | p/one").unwrap();
        let wanted = "| start ms | `one` |\n| --- | --- |\n| nginx | 10 |\n| sekisho | 5 |";
        assert_eq!(turned, wanted);
    }

    #[test]
    fn cases_of_a_row_stand_below_each_other() {
        let table = figures().value("cases start ms | p/one").unwrap();
        let wanted = "|  | start ms |\n| --- | --- |\n| nginx | 10 |\n| sekisho | 5 |";
        assert_eq!(table, wanted);
        assert!(figures().value("cases start ms; none | p/one").is_err());
    }

    #[test]
    fn counts_have_no_fraction_and_thousands_a_comma() {
        let values = [0.0, 12.0, 12.34, 999.6, 1_234.5, 600_031.0, 1_000_000.0];
        let texts = values.map(shown);
        let wanted = ["0", "12", "12.3", "1,000", "1,235", "600,031", "1,000,000"];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn slopes_keep_two_digits() {
        let texts = [37.04, 0.000_123, 0.0].map(significant);
        assert_eq!(texts, ["37.0", "0.00012", "0"]);
    }
}
