//! Results of a comparison, as they are stored.

mod verdict;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::mem;

use serde::{Deserialize, Serialize};

pub(crate) use self::verdict::{Grade, Verdict};
use super::condition::Condition;
use super::left_out::LeftOut;
use super::mark;
use super::measure::{Sample, Series};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) command: String,
    /// Hardware and versions, each a name and a value.
    pub(crate) facts: Vec<(String, String)>,
    /// Path of the benchmark's README from where the report is kept.
    pub(crate) guide: &'static str,
    pub(crate) rows: Vec<RowResult>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RowResult {
    pub(crate) id: Cow<'static, str>,
    pub(crate) title: Cow<'static, str>,
    pub(crate) hosts: usize,
    pub(crate) seconds: f64,
    /// Load average of the machine at the end of the row, which shows other
    /// work.
    pub(crate) load: String,
    pub(crate) cases: Vec<CaseResult>,
    pub(crate) left_out: Vec<LeftOut>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct CaseResult {
    pub(crate) label: String,
    pub(crate) commands: Vec<String>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) error: Option<String>,
    /// Label of the case by which the ratios divide.
    pub(crate) divisor: Option<String>,
    /// Mark of a client that was so busy that the rates may be its own.
    #[serde(default)]
    pub(crate) rates_of_client: bool,
    /// Readings over time, if the row has them.
    #[serde(default, skip_serializing_if = "Series::is_empty")]
    pub(crate) series: Series,
    /// Of each round.
    #[serde(default)]
    pub(crate) machine: Vec<Condition>,
}

/// Figure of a case, with its values in all rounds.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: Cow<'static, str>,
    pub(crate) values: Vec<f64>,
    pub(crate) median: f64,
    /// Ratio to the first case, or to the baseline: the median of each round's
    /// ratio.
    pub(crate) ratio: Option<f64>,
}

/// End of the label of a trained build's case.
pub(crate) const TRAINED: &str = " (trained)";

impl RowResult {
    /// Returns the result of a row none of whose cases could begin.
    pub(crate) fn failed(id: &'static str, title: &'static str, error: &str) -> Self {
        let case = CaseResult::new("all cases", &[], Some(error.to_owned()));
        Self {
            id: id.into(),
            title: title.into(),
            hosts: 0,
            seconds: 0.0,
            load: String::new(),
            cases: vec![case],
            left_out: Vec::new(),
        }
    }

    /// Returns how many cases failed.
    pub(crate) fn failures(&self) -> usize {
        let failed = self.cases.iter().filter(|case| case.error.is_some());
        failed.count()
    }

    /// Takes what is better of another attempt at the whole row or, of one at some cases, at
    /// those whose rounds differed. The case that divides them keeps its first attempt, which
    /// the others were measured beside.
    pub(crate) fn improve(&mut self, unsteady: &[String], mut again: Self) {
        let seconds = self.seconds + again.seconds;
        if again.cases.len() == self.cases.len() {
            if again.is_better(self) {
                *self = again;
            }
        } else {
            let cases = self.cases.iter_mut();
            for case in cases.filter(|case| unsteady.contains(&case.label)) {
                let other = again
                    .cases
                    .iter_mut()
                    .find(|other| other.label == case.label);
                if let Some(other) = other
                    && other.error.is_none()
                    && other.spread() < case.spread()
                {
                    *case = mem::take(other);
                }
            }
        }
        self.seconds = seconds;
    }

    /// Returns whether more cases succeeded than in another attempt or, of as many, whether the
    /// rounds differ less.
    fn is_better(&self, other: &Self) -> bool {
        let whole = |row: &Self| row.cases.len() - row.failures();
        match whole(self).cmp(&whole(other)) {
            Ordering::Equal => self.spread() < other.spread(),
            order => order.is_gt(),
        }
    }

    fn spread(&self) -> f64 {
        let spreads = self.cases.iter().map(CaseResult::spread);
        spreads.fold(0.0, f64::max)
    }

    /// Returns the cases whose main figure differs between rounds by more than this part of
    /// its median.
    pub(crate) fn unsteady(&self, part: f64) -> Vec<String> {
        let cases = self.cases.iter().filter(|case| case.spread() > part);
        cases.map(|case| case.label.clone()).collect()
    }
}

impl CaseResult {
    pub(crate) fn new(label: impl Into<String>, samples: &[Sample], error: Option<String>) -> Self {
        let names = samples.first().into_iter().flatten().map(|(name, _)| *name);
        let figures: Vec<_> = names.map(|name| Figure::new(name, samples)).collect();
        Self {
            label: label.into(),
            rates_of_client: mark::is_client_busy(&figures),
            figures,
            error,
            ..Self::default()
        }
    }

    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the spread of the main figure.
    fn spread(&self) -> f64 {
        self.figures.first().map_or(0.0, Figure::spread)
    }

    /// Sets the ratio of every figure to that of `other`, round by round: a
    /// disturbance slows both cases of a round.
    pub(crate) fn divide_by(&mut self, other: &Self) {
        self.divisor = Some(other.label.clone());
        for figure in &mut self.figures {
            figure.ratio = other.figure(&figure.name).map(|divisor| {
                let rounds = figure.values.iter().zip(&divisor.values);
                let ratios: Vec<f64> = rounds.map(|(value, other)| value / other).collect();
                median(&ratios)
            });
        }
    }
}

impl Figure {
    /// Returns by which part of the median the rounds differ.
    pub(crate) fn spread(&self) -> f64 {
        let (least, most) = self
            .values
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), value| {
                (value.min(least), value.max(most))
            });
        (most - least) / self.median
    }

    fn new(name: &'static str, samples: &[Sample]) -> Self {
        let values: Vec<f64> = samples
            .iter()
            .flatten()
            .filter(|(other, _)| *other == name)
            .map(|(_, value)| *value)
            .collect();
        Self {
            name: name.into(),
            median: median(&values),
            values,
            ratio: None,
        }
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::rows::figure::CPU;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_attempt_with_the_fewest_errors_is_better_then_the_steadier() {
        let row = |values: [f64; 3], error: Option<&str>| {
            let failed = CaseResult::new("b", &[], error.map(str::to_owned));
            let mut row = RowResult::failed("row", "a row", "it died");
            row.cases = vec![case_of(CPU, values), failed];
            row
        };
        let (steady, busy) = ([10.0, 10.0, 11.0], [10.0, 10.0, 20.0]);
        assert!(row(steady, None).is_better(&row(busy, None)));
        assert!(!row(busy, None).is_better(&row(steady, None)));
        assert!(row(busy, None).is_better(&row(steady, Some("it died"))));
        let none = RowResult::failed("row", "a row", "it died");
        assert!(!none.is_better(&row(busy, Some("it died"))));
    }

    #[test]
    fn an_attempt_at_some_cases_mends_those_that_were_unsteady() {
        let row = |cases: &[(&str, [f64; 3])]| {
            let cases = cases.iter().map(|(label, values)| CaseResult {
                label: (*label).into(),
                ..case_of(CPU, *values)
            });
            RowResult {
                seconds: 10.0,
                cases: cases.collect(),
                ..RowResult::failed("row", "a row", "")
            }
        };
        let firsts = |row: &RowResult| -> Vec<f64> {
            let cases = row.cases.iter();
            cases.map(|case| case.figures[0].values[0]).collect()
        };
        let steady = ("a", [10.0, 10.0, 11.0]);
        let mut kept = row(&[steady, ("b", [20.0, 20.0, 40.0]), ("c", [30.0, 30.0, 60.0])]);
        let unsteady = kept.unsteady(0.25);
        assert_eq!(unsteady, ["b", "c"]);
        // Fewer cases: the first one divides again, and stays as it was.
        let unsteadier = ("c", [31.0, 31.0, 93.0]);
        kept.improve(&unsteady, row(&[("a", [12.0; 3]), unsteadier]));
        kept.improve(&unsteady, row(&[("a", [12.0; 3]), ("b", [21.0; 3])]));
        assert_eq!(firsts(&kept), [10.0, 21.0, 30.0]);
        assert_eq!(kept.seconds, 30.0);
        // All cases: one attempt or the other.
        let busy = row(&[("a", [13.0; 3]), ("b", [22.0; 3]), ("c", [1.0, 2.0, 9.0])]);
        kept.improve(&unsteady, busy);
        assert_eq!(firsts(&kept), [10.0, 21.0, 30.0]);
        kept.improve(
            &unsteady,
            row(&[("a", [13.0; 3]), ("b", [22.0; 3]), ("c", [32.0; 3])]),
        );
        assert_eq!(firsts(&kept), [13.0, 22.0, 32.0]);
        assert_eq!(kept.seconds, 50.0);
    }

    fn case_of(name: &'static str, values: [f64; 3]) -> CaseResult {
        CaseResult::new("a", &values.map(|value| vec![(name, value)]), None)
    }
}
