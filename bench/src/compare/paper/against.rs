//! Two runs beside each other.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use anyhow::{Result, ensure};

use super::super::markdown::number;
use super::kept::{Kept, Run, read};
use super::only;
use super::part::Part;

/// Prints each ratio to the first case of its row that differs by more than [`LEAST`] between
/// two runs, of these rows of these parts.
///
/// # Errors
/// If they have no row in common, or one of them is a quick run.
pub(crate) fn compare(one: &Path, other: &Path, parts: &[&Part], rows: &[String]) -> Result<()> {
    let (mut common, mut ratios, mut differ) = (0, 0, 0);
    for part in parts {
        check_runs(one, other, part)?;
        for id in part.results(false).filter(|id| only::has(rows, id)) {
            let kept = |folder: &Path| read(&folder.join(part.id).join(format!("{id}.json")));
            let (Some(here), Some(there)) = (kept(one)?, kept(other)?) else {
                continue;
            };
            common += 1;
            for pair in pairs(&here, &there) {
                ratios += 1;
                if pair.change().abs() > LEAST {
                    differ += 1;
                    println!("{} {id}, {pair}", part.id);
                }
            }
        }
    }
    let (one, other) = (one.display(), other.display());
    ensure!(common > 0, "{one} and {other} have no row in common");
    println!("{common} rows, {ratios} ratios, {differ} differ by more than 10 %");
    Ok(())
}

/// Refuses quick runs, and names the facts in which two runs of a part differ.
fn check_runs(one: &Path, other: &Path, part: &Part) -> Result<()> {
    let (Some(here), Some(there)) = (Run::of_part(one, part)?, Run::of_part(other, part)?) else {
        return Ok(());
    };
    let is_quick = here.quick || there.quick;
    ensure!(!is_quick, "{}: quick runs can't be compared", part.id);
    let names = here.differs(&there);
    match names.is_empty() {
        true => println!("{}: of the same machine and versions", part.id),
        false => println!("{}: {names} differ", part.id),
    }
    Ok(())
}

/// Ratio of a case's figure to that of the row's first case, in two runs.
#[derive(Debug, PartialEq)]
struct Pair<'a> {
    case: &'a str,
    figure: &'a str,
    here: f64,
    there: f64,
}

impl Pair<'_> {
    fn change(&self) -> f64 {
        self.here / self.there - 1.0
    }
}

impl Display for Pair<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (here, there) = (number(self.here), number(self.there));
        let percent = 100.0 * self.change();
        let Self { case, figure, .. } = self;
        write!(f, "{case}, {figure}: {here}, was {there} ({percent:+.0} %)")
    }
}

/// Returns the ratios to the same case that both have.
fn pairs<'a>(here: &'a Kept, there: &'a Kept) -> impl Iterator<Item = Pair<'a>> {
    here.result.cases.iter().flat_map(move |case| {
        let mut cases = there.result.cases.iter();
        let other =
            cases.find(|other| (&other.label, &other.divisor) == (&case.label, &case.divisor));
        case.figures.iter().filter_map(move |figure| {
            Some(Pair {
                case: &case.label,
                figure: &figure.name,
                there: other?.figure(&figure.name)?.ratio?,
                here: figure.ratio?,
            })
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
        let same = Pair {
            case: "sekisho",
            figure: figure::CPU,
            here: 0.5,
            there: 0.5,
        };
        assert_eq!(pairs(&nginx, &nginx).next(), Some(same));
    }
}
