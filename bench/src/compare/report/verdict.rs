//! Goals of a row, and whether its cases reached them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{CaseResult, TRAINED};
use crate::compare::rows::{Goal, Scale, figure};

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

impl CaseResult {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::rows::figure::{CPU, CYCLES, P99};

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

    fn case_of(name: &'static str, values: [f64; 3]) -> CaseResult {
        CaseResult::new("a", &values.map(|value| vec![(name, value)]), None)
    }
}
