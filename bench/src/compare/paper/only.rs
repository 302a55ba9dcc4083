//! Rows of a run, if it is to have some alone.

use anyhow::{Result, ensure};

use super::part::Part;

/// Returns whether a row or a test is to run: without names, all are.
pub(super) fn has(rows: &[String], id: &str) -> bool {
    rows.is_empty() || rows.iter().any(|row| row == id)
}

/// # Errors
/// If no part has one of the rows.
pub(super) fn check(rows: &[String], parts: &[&Part], quick: bool) -> Result<()> {
    let all = || parts.iter().flat_map(|part| part.results(quick));
    for row in rows {
        let known = || all().collect::<Vec<_>>().join(", ");
        ensure!(
            all().any(|id| id == row),
            "there is no row {row:?} in this run, only {}",
            known()
        );
    }
    Ok(())
}
