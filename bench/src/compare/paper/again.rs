//! Which cases of a row are measured again.

use super::super::report::TRAINED;
use super::super::rows::{Case, Goal, Row, Scale};

/// Returns the cases to measure again for those whose rounds differ: these, and the first one,
/// which divides them round by round. All, if that one is among them or goals name others.
pub(super) fn beside(row: &'static Row, unsteady: &[String]) -> Vec<&'static str> {
    let is_unsteady = |case: &Case| {
        let mut labels = unsteady.iter();
        labels.any(|label| label.strip_suffix(TRAINED).unwrap_or(label) == case.label)
    };
    let names_others = |goal: &Goal| matches!(goal.scale, Scale::Over(_));
    let all = is_unsteady(&row.cases[0]) || row.goals.iter().any(names_others);
    let cases = row.cases.iter().enumerate();
    let again = cases.filter(|(index, case)| all || *index == 0 || is_unsteady(case));
    again.map(|(_, case)| case.label).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::table::ROWS;
    use super::super::throughput::THROUGHPUT;
    use super::*;

    #[test]
    fn cases_are_measured_again_beside_the_one_that_divides_them() {
        let again = |row: &'static Row, unsteady: &[&str]| {
            let unsteady: Vec<String> = unsteady.iter().map(|label| (*label).into()).collect();
            beside(row, &unsteady)
        };
        let nginx = ROWS[0].cases[0].label;
        assert_eq!(again(&ROWS[0], &["sekisho"]), [nginx, "sekisho"]);
        let row = &THROUGHPUT.rows[0];
        let first = row.cases[0].label;
        assert_eq!(again(row, &["Apache"]), [first, "Apache"]);
        assert_eq!(again(row, &["sekisho (trained)"]), [first, "sekisho"]);
        assert_eq!(again(row, &["Apache", first]).len(), row.cases.len());
        let over = ROWS.iter().find(|row| {
            let mut goals = row.goals.iter();
            goals.any(|goal| matches!(goal.scale, Scale::Over(_)))
        });
        let over = over.expect("a row has such a goal");
        let last = over.cases[over.cases.len() - 1].label;
        assert_eq!(again(over, &[last]).len(), over.cases.len());
    }
}
