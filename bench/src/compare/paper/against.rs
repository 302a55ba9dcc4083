//! Two runs beside each other.

use std::path::Path;

use anyhow::{Result, ensure};

use super::super::markdown::number;
use super::kept::{Kept, read};
use super::part::PARTS;

/// Prints each ratio to the first case of its row that differs by more than [`LEAST`] between
/// two runs.
///
/// # Errors
/// If they have no row in common.
pub(crate) fn compare(one: &Path, other: &Path) -> Result<()> {
    let (mut ratios, mut differ) = (0, 0);
    for (part, id) in PARTS
        .iter()
        .flat_map(|part| part.results(false).map(move |id| (part, id)))
    {
        let file = |folder: &Path| folder.join(part.id).join(format!("{id}.json"));
        let (Some(here), Some(there)) = (read::<Kept>(&file(one))?, read::<Kept>(&file(other))?)
        else {
            continue;
        };
        for (case, figure, ours, theirs) in pairs(&here, &there) {
            ratios += 1;
            let change = ours / theirs - 1.0;
            if change.abs() > LEAST {
                differ += 1;
                println!(
                    "{} {id}, {case}, {figure}: {}, was {} ({:+.0} %)",
                    part.id,
                    number(ours),
                    number(theirs),
                    100.0 * change
                );
            }
        }
    }
    ensure!(
        ratios > 0,
        "{} and {} have no row in common",
        one.display(),
        other.display()
    );
    println!("{ratios} ratios, {differ} differ by more than 10 %");
    Ok(())
}

/// Returns the ratios to the same case that both have, with case and figure.
fn pairs<'a>(
    here: &'a Kept,
    there: &'a Kept,
) -> impl Iterator<Item = (&'a str, &'a str, f64, f64)> {
    here.result.cases.iter().flat_map(move |case| {
        let mut cases = there.result.cases.iter();
        let other =
            cases.find(|other| (&other.label, &other.divisor) == (&case.label, &case.divisor));
        case.figures.iter().filter_map(move |figure| {
            let theirs = other?.figure(&figure.name)?.ratio?;
            Some((case.label.as_str(), &*figure.name, figure.ratio?, theirs))
        })
    })
}

const LEAST: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::super::super::report::{CaseResult, RowResult};
    use super::super::super::rows::figure;
    use super::*;

    fn kept(divisor: &str) -> Kept {
        let case = |label, cpu| CaseResult::new(label, &[vec![(figure::CPU, cpu)]], None);
        let mut ours = case("sekisho", 1.0);
        ours.divide_by(&case(divisor, 2.0));
        let mut result = RowResult::failed("row", "a row", "");
        result.cases = vec![ours];
        Kept {
            result,
            unsteady: Vec::new(),
        }
    }

    #[test]
    fn ratios_to_other_cases_are_not_compared() {
        let (nginx, apache) = (kept("nginx"), kept("Apache"));
        assert_eq!(pairs(&nginx, &apache).count(), 0);
        let mut same = pairs(&nginx, &nginx);
        assert_eq!(same.next(), Some(("sekisho", figure::CPU, 0.5, 0.5)));
    }
}
