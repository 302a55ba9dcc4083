//! Two runs beside each other.

use std::path::Path;

use anyhow::{Result, ensure};

use super::super::markdown::number;
use super::kept::{Kept, read};
use super::part::PARTS;

/// Prints each ratio to a peer that differs by more than [`LEAST`] between two runs.
///
/// # Errors
/// If they have no row in common.
pub(crate) fn compare(one: &Path, other: &Path) -> Result<()> {
    let (mut ratios, mut differ) = (0, 0);
    for (part, row) in PARTS
        .iter()
        .flat_map(|part| part.rows.iter().map(move |row| (part, row)))
    {
        let file = |folder: &Path| folder.join(part.id).join(format!("{}.json", row.id));
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
                    "{} {}, {case}, {figure}: {}, was {} ({:+.0} %)",
                    part.id,
                    row.id,
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

/// Returns the ratios that both have, with case and figure.
fn pairs<'a>(
    here: &'a Kept,
    there: &'a Kept,
) -> impl Iterator<Item = (&'a str, &'a str, f64, f64)> {
    here.result.cases.iter().flat_map(move |case| {
        let mut cases = there.result.cases.iter();
        let other = cases.find(|other| other.label == case.label);
        case.figures.iter().filter_map(move |figure| {
            let theirs = other?.figure(&figure.name)?.ratio?;
            Some((case.label.as_str(), &*figure.name, figure.ratio?, theirs))
        })
    })
}

const LEAST: f64 = 0.1;
