//! What came out, in the form in which it is kept.

use serde::Serialize;

use super::measure::Sample;
use super::rows::{Goal, Scale};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) date: String,
    pub(crate) command: String,
    /// Hardware and versions, name and value.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) rows: Vec<RowResult>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RowResult {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) hosts: usize,
    pub(crate) seconds: f64,
    /// The machine's load average when the row was done: what else was running.
    pub(crate) load: String,
    pub(crate) cases: Vec<CaseResult>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct CaseResult {
    pub(crate) label: &'static str,
    pub(crate) commands: Vec<String>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) error: Option<String>,
}

/// One figure in every round.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<f64>,
    pub(crate) median: f64,
    /// To the first case's median.
    pub(crate) ratio: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) figure: &'static str,
    pub(crate) reached: f64,
    pub(crate) ratio: bool,
    pub(crate) must: f64,
    pub(crate) aim: Option<f64>,
    pub(crate) grade: Grade,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Grade {
    Aim,
    Must,
    Missed,
}

impl CaseResult {
    pub(crate) fn new(label: &'static str, samples: &[Sample], error: Option<String>) -> Self {
        let names = samples.first().into_iter().flatten().map(|(name, _)| *name);
        let figures = names.map(|name| Figure::new(name, samples)).collect();
        Self {
            label,
            figures,
            error,
            ..Self::default()
        }
    }

    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Fills in the ratios of every figure to the same one of `first`.
    pub(crate) fn divide_by(&mut self, first: &[(&'static str, f64)]) {
        for figure in &mut self.figures {
            let divisor = first.iter().find(|(name, _)| *name == figure.name);
            figure.ratio = divisor.map(|(_, median)| figure.median / median);
        }
    }

    pub(crate) fn judge(&mut self, goals: &[Goal]) {
        self.verdicts = goals.iter().filter_map(|goal| self.verdict(goal)).collect();
    }

    fn verdict(&self, goal: &Goal) -> Option<Verdict> {
        let figure = self.figure(goal.figure)?;
        let reached = match goal.scale {
            Scale::Ratio => figure.ratio?,
            Scale::Absolute => figure.median,
        };
        let grade = if goal.aim.is_some_and(|aim| reached <= aim) {
            Grade::Aim
        } else if reached <= goal.must {
            Grade::Must
        } else {
            Grade::Missed
        };
        Some(Verdict {
            figure: goal.figure,
            reached,
            ratio: goal.scale == Scale::Ratio,
            must: goal.must,
            aim: goal.aim,
            grade,
        })
    }
}

impl Figure {
    fn new(name: &'static str, samples: &[Sample]) -> Self {
        let values: Vec<f64> = samples
            .iter()
            .flatten()
            .filter(|(other, _)| *other == name)
            .map(|(_, value)| *value)
            .collect();
        Self {
            name,
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
    fn verdicts_follow_from_the_ratio_to_the_first_case() {
        let goal = |must, aim| Goal {
            figure: CPU,
            scale: Scale::Ratio,
            must,
            aim,
        };
        let samples = vec![vec![(CPU, 90.0)], vec![(CPU, 100.0)], vec![(CPU, 300.0)]];
        let mut case = CaseResult::new("a", &samples, None);
        case.divide_by(&[(CPU, 400.0)]);
        case.judge(&[goal(0.3, Some(0.25)), goal(0.3, None), goal(0.2, Some(0.1))]);
        let grades: Vec<Grade> = case.verdicts.iter().map(|verdict| verdict.grade).collect();
        assert_eq!(grades, [Grade::Aim, Grade::Must, Grade::Missed]);
        assert_eq!(case.verdicts[0].reached, 0.25);
    }
}
