//! Results of a comparison, as they are stored.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::left_out::LeftOut;
use super::mark;
use super::measure::{Sample, Series};
use super::rows::{Goal, Scale, figure};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) date: String,
    pub(crate) command: String,
    /// Hardware and versions, each a name and a value.
    pub(crate) facts: Vec<(String, String)>,
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
    /// Whether the client was so busy that the rates tell of it instead of the server.
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

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) figure: Cow<'static, str>,
    pub(crate) reached: f64,
    pub(crate) ratio: bool,
    pub(crate) must: f64,
    pub(crate) aim: Option<f64>,
    pub(crate) grade: Grade,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Grade {
    Aim,
    Must,
    Missed,
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

    /// Returns whether more cases succeeded than in another attempt or, of as many, whether the
    /// rounds differ less.
    pub(crate) fn is_better(&self, other: &Self) -> bool {
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

    /// Judges the goals, given all cases of the row.
    pub(crate) fn verdicts(&self, goals: &[Goal], row: &[Self]) -> Vec<Verdict> {
        let own = self.label.strip_suffix(TRAINED).unwrap_or(&self.label);
        let mine = |goal: &&Goal| goal.case.is_none_or(|label| label == own);
        let goals = goals.iter().filter(mine);
        goals.filter_map(|goal| self.verdict(goal, row)).collect()
    }

    /// Returns another case of the row: for a trained build, that of a trained one.
    fn other<'a>(&self, label: &str, row: &'a [Self]) -> Option<&'a Self> {
        let trained = |case: &&Self| case.label.strip_suffix(TRAINED) == Some(label);
        let trained = row.iter().find(trained);
        let trained = trained.filter(|_| self.label.ends_with(TRAINED));
        trained.or_else(|| row.iter().find(|case| case.label == label))
    }

    fn verdict(&self, goal: &Goal, row: &[Self]) -> Option<Verdict> {
        let mut figure = self.figure(goal.figure)?;
        if goal.scale == Scale::Ratio && goal.figure == figure::CPU {
            let cycles = self.figure(figure::CYCLES);
            figure = cycles
                .filter(|cycles| cycles.ratio.is_some())
                .unwrap_or(figure);
        }
        let reached = match goal.scale {
            Scale::Ratio => figure.ratio?,
            Scale::Absolute | Scale::Over(_) | Scale::Near(..) => figure.median,
        };
        let must = match goal.scale {
            Scale::Ratio | Scale::Absolute => goal.must,
            Scale::Over(parts) => {
                let mut sum = goal.must;
                for (times, label) in parts {
                    let other = self.other(label, row)?;
                    sum += times * other.figure(goal.figure)?.median;
                }
                sum
            }
            Scale::Near(other, times) => {
                let other = self.figure(other)?.median;
                (times * other).max(other + goal.must)
            }
        };
        let grade = if goal.aim.is_some_and(|aim| reached <= aim) {
            Grade::Aim
        } else if reached <= must {
            Grade::Must
        } else {
            Grade::Missed
        };
        Some(Verdict {
            figure: figure.name.clone(),
            reached,
            ratio: goal.scale == Scale::Ratio,
            must,
            aim: goal.aim,
            grade,
        })
    }
}

impl Figure {
    /// Returns by which part of the median the rounds differ.
    fn spread(&self) -> f64 {
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
    use crate::compare::rows::figure::{CPU, CYCLES, P99};

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
    fn verdicts_follow_from_the_ratio_to_the_first_case() {
        let goal = |must, aim| Goal {
            figure: CPU,
            scale: Scale::Ratio,
            must,
            aim,
            case: None,
        };
        let mut case = case_of(CPU, [90.0, 100.0, 300.0]);
        case.divide_by(&case_of(CPU, [600.0, 400.0, 1_000.0]));
        let goals = [goal(0.3, Some(0.25)), goal(0.3, None), goal(0.2, Some(0.1))];
        let verdicts = case.verdicts(&goals, &[]);
        let grades: Vec<Grade> = verdicts.iter().map(|verdict| verdict.grade).collect();
        assert_eq!(grades, [Grade::Aim, Grade::Must, Grade::Missed]);
        assert_eq!(verdicts[0].reached, 0.25);
    }

    #[test]
    fn cycles_are_judged_where_both_cases_have_them() {
        let goal = Goal {
            figure: CPU,
            scale: Scale::Ratio,
            must: 0.5,
            aim: None,
            case: None,
        };
        let case = |cycles: Option<f64>| {
            let counted = cycles.map(|cycles| (CYCLES, cycles));
            let sample = [(CPU, 100.0)].into_iter().chain(counted).collect();
            CaseResult::new("a", &[sample], None)
        };
        for (first, second, figure, reached) in [
            (Some(500.0), Some(200.0), CYCLES, 0.4),
            (None, Some(200.0), CPU, 1.0),
            (None, None, CPU, 1.0),
        ] {
            let mut ours = case(second);
            ours.divide_by(&case(first));
            let verdict = ours.verdict(&goal, &[]).unwrap();
            assert_eq!((&*verdict.figure, verdict.reached), (figure, reached));
        }
    }

    #[test]
    fn a_trained_build_is_held_to_the_goals_beside_trained_cases() {
        let case = |label: &str, cpu| CaseResult::new(label, &[vec![(CPU, cpu)]], None);
        let row = [
            case("nginx", 10.0),
            case("file", 3.0),
            case("file (trained)", 2.0),
            case("proxy", 14.0),
            case("proxy (trained)", 11.0),
        ];
        let goals = [Goal {
            figure: CPU,
            scale: Scale::Over(&[(1.0, "nginx"), (1.0, "file")]),
            must: 0.0,
            aim: None,
            case: Some("proxy"),
        }];
        let judged = |case: &CaseResult| {
            let verdicts = case.verdicts(&goals, &row).into_iter();
            verdicts
                .map(|verdict| (verdict.must, verdict.grade))
                .collect::<Vec<_>>()
        };
        assert_eq!(judged(&row[1]), []);
        assert_eq!(judged(&row[3]), [(13.0, Grade::Missed)]);
        assert_eq!(judged(&row[4]), [(12.0, Grade::Must)]);
    }

    fn case_of(name: &'static str, values: [f64; 3]) -> CaseResult {
        CaseResult::new("a", &values.map(|value| vec![(name, value)]), None)
    }

    #[test]
    fn bounds_follow_from_other_cases_and_figures() {
        let case = |label, cpu: f64, p99: f64| {
            CaseResult::new(label, &[vec![(CPU, cpu), (P99, p99)]], None)
        };
        let row = [
            case("local", 100.0, 8.0),
            case("client", 20.0, 0.0),
            case("remote", 131.0, 13.0),
        ];
        let goal = |figure, scale, must| Goal {
            figure,
            scale,
            must,
            aim: None,
            case: Some("remote"),
        };
        let goals = [
            goal(CPU, Scale::Over(&[(1.1, "local"), (1.0, "client")]), 0.0),
            goal(CPU, Scale::Over(&[(1.0, "local")]), 60.0),
            goal(P99, Scale::Near(CPU, 0.1), -125.0),
        ];
        assert!(row[0].verdicts(&goals, &row).is_empty());
        let verdicts = row[2].verdicts(&goals, &row);
        let bounds: Vec<f64> = verdicts
            .iter()
            .map(|verdict| verdict.must.round())
            .collect();
        assert_eq!(bounds, [130.0, 160.0, 13.0]);
        let grades: Vec<Grade> = verdicts.iter().map(|verdict| verdict.grade).collect();
        assert_eq!(grades, [Grade::Missed, Grade::Must, Grade::Must]);
    }
}
