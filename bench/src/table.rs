//! Result of a test in the form in which the evaluation keeps its rows: cases with figures.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Figures of a case by name, the most important first.
pub type Figures = Vec<(&'static str, f64)>;

/// Table of a test, a line for each case.
#[derive(Debug)]
pub struct Table {
    title: &'static str,
    cases: Vec<Value>,
}

impl Table {
    pub fn new(title: &'static str) -> Self {
        Self {
            title,
            cases: Vec::new(),
        }
    }

    /// Adds a case. `error` says what it should not have done.
    pub fn add(&mut self, label: &str, figures: &Figures, error: Option<&str>) {
        let figure = |(name, value): &(&str, f64)| json!({ "name": name, "values": [value], "median": value, "ratio": null });
        let figures: Vec<Value> = figures.iter().map(figure).collect();
        self.cases.push(json!({
            "label": label, "commands": [], "figures": figures, "verdicts": [],
            "error": error, "divisor": null,
        }));
    }

    /// Writes the table as JSON, if a file is given. The row is named after the file.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, file: Option<&Path>) -> Result<()> {
        let Some(file) = file else { return Ok(()) };
        let id = file.file_stem().unwrap_or_default().to_string_lossy();
        let row = json!({
            "id": id, "title": self.title, "hosts": 0, "seconds": 0.0, "load": "",
            "cases": self.cases, "left_out": [], "unsteady": [],
        });
        let text = serde_json::to_string_pretty(&row)? + "\n";
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// Formats a count with commas between thousands. It is not negative.
pub fn thousands(value: i64) -> String {
    match value {
        0..1_000 => value.to_string(),
        _ => format!("{},{:03}", thousands(value / 1_000), value % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_thousands() {
        let texts = [0, 999, 1_000, 2_025_005].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "2,025,005"]);
    }
}
