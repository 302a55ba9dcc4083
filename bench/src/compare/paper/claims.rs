//! Claims that a part's report checks beyond the goals of its rows: claims across rows, and the
//! papers' claim about one server.

use std::fmt::{self, Display, Formatter};

use super::super::markdown::number;
use super::super::report::{Grade, RowResult};
use super::super::rows::{Goal, Measure, figure};
use super::super::table::ratio;
use super::part::Part;
use super::throughput::BY_VARIABLE;

/// Returns the claims of a part with their verdicts, as Markdown; nothing if it has none.
pub(super) fn render(part: &Part, rows: &[RowResult]) -> String {
    let mut text = String::new();
    for claim in CLAIMS.iter().filter(|claim| claim.part == part.id) {
        let checked = claim.check.run(part, rows);
        let lines = checked.iter().map(|checked| format!("- {checked}\n"));
        text += &format!("\n{}:\n\n{}", claim.text, lines.collect::<String>());
    }
    match text.is_empty() {
        true => text,
        false => format!("\n## Claims\n{text}"),
    }
}

struct Claim {
    part: &'static str,
    text: &'static str,
    check: Check,
}

enum Check {
    /// A figure of sekisho differs between [`FLAT`] by this at most.
    Flat(&'static str, f64),
    /// A case reaches this goal in each row with requests on connections that stay open.
    Goal(Goal),
}

impl Check {
    fn run(&self, part: &Part, rows: &[RowResult]) -> Vec<Checked> {
        match self {
            Self::Flat(figure, bound) => flat(rows, figure, *bound),
            Self::Goal(goal) => {
                let wanted = part.rows.iter();
                let wanted = wanted.filter(|row| matches!(row.measure, Measure::Requests { .. }));
                wanted.map(|row| reached(rows, row.id, goal)).collect()
            }
        }
    }
}

/// Checks each case that the last of the rows has: sekisho, and its trained build.
fn flat(rows: &[RowResult], name: &str, bound: f64) -> Vec<Checked> {
    let mut found = Vec::new();
    for id in FLAT {
        match rows.iter().find(|row| row.id == id) {
            Some(row) => found.push(row),
            None => return vec![Checked::new(None, format!("`{id}` is not measured"))],
        }
    }
    let cases = found.last().into_iter().flat_map(|row| &row.cases);
    let check = |label: &str| {
        let medians = found.iter().map(|row| {
            let case = row.cases.iter().find(|case| case.label == label)?;
            Some(case.figure(name)?.median)
        });
        let Some(medians) = medians.collect::<Option<Vec<f64>>>() else {
            return Checked::new(None, format!("{label} has no {name} in one of the rows"));
        };
        let least = medians.iter().copied().fold(f64::MAX, f64::min);
        let most = medians.iter().copied().fold(f64::MIN, f64::max);
        let differs = most - least;
        let (shown, least, most) = (number(differs), number(least), number(most));
        let bound_shown = number(bound);
        Checked::new(
            Some(differs <= bound),
            format!("{label}: {least} to {most} {name}; {shown} apart, of {bound_shown}"),
        )
    };
    cases.map(|case| check(&case.label)).collect()
}

/// Checks the goal's case in one row.
fn reached(rows: &[RowResult], id: &str, goal: &Goal) -> Checked {
    let label = goal.case.unwrap_or_default();
    let found = rows.iter().find(|row| row.id == id);
    let verdict = found.and_then(|row| {
        let case = row.cases.iter().find(|case| case.label == label)?;
        case.verdicts(&[*goal], &row.cases).pop()
    });
    match verdict {
        Some(verdict) => Checked::new(
            Some(verdict.grade != Grade::Missed),
            format!(
                "`{id}`: {:.3} of {}, of {}",
                verdict.reached, verdict.figure, verdict.must
            ),
        ),
        None => Checked::new(None, format!("`{id}` has no ratio of this case")),
    }
}

/// Verdict with its figures; None if they are missing.
#[derive(Debug, PartialEq)]
struct Checked {
    kept: Option<bool>,
    text: String,
}

impl Checked {
    fn new(kept: Option<bool>, text: String) -> Self {
        Self { kept, text }
    }
}

impl Display for Checked {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let verdict = match self.kept {
            Some(true) => "kept",
            Some(false) => "failed",
            None => "not checked",
        };
        write!(formatter, "**{verdict}**: {}", self.text)
    }
}

const CLAIMS: &[Claim] = &[
    Claim {
        part: "preload",
        text: "sekisho starts in the same time with 1,000 to 1,000,000 hosts, within 10 ms",
        check: Check::Flat(figure::START, 10.0),
    },
    Claim {
        part: "preload",
        text: "sekisho takes the same memory with 1,000 to 1,000,000 hosts, within 2 MiB",
        check: Check::Flat(figure::RSS, 2.0),
    },
    Claim {
        part: "throughput",
        text: "The papers: one server takes within 1 % as much with dynamic certificates as with \
               preloaded ones, here nginx with file names by variable, per request",
        check: Check::Goal(Goal {
            case: Some(BY_VARIABLE),
            ..ratio(1.01, None)
        }),
    },
];
/// Rows with 1,000 to 1,000,000 hosts.
const FLAT: [&str; 4] = ["ecdsa-1000", "ecdsa-10000", "ecdsa-100000", "ecdsa-1000000"];

#[cfg(test)]
mod tests {
    use super::super::super::report::CaseResult;
    use super::super::preload::PRELOAD;
    use super::super::throughput::THROUGHPUT;
    use super::*;

    fn row(id: &'static str, cases: Vec<CaseResult>) -> RowResult {
        let mut row = RowResult::failed(id, "a row", "");
        row.cases = cases;
        row
    }

    fn started(id: &'static str, start: f64, rss: f64) -> RowResult {
        let sample = vec![(figure::START, start), (figure::RSS, rss)];
        row(id, vec![CaseResult::new("sekisho", &[sample], None)])
    }

    #[test]
    fn starts_are_flat_within_their_bounds() {
        let starts = [(5.0, 20.0), (15.1, 20.5), (6.0, 21.0), (7.0, 22.0)];
        let starts = FLAT.iter().zip(starts);
        let mut rows: Vec<_> = starts
            .map(|(id, (start, rss))| started(id, start, rss))
            .collect();
        let text = render(&PRELOAD, &rows);
        let failed = "- **failed**: sekisho: 5.00 to 15.1 start ms; 10.1 apart, of 10.0\n";
        let kept = "- **kept**: sekisho: 20.0 to 22.0 RSS MiB; 2.00 apart, of 2.00\n";
        assert!(text.contains(failed) && text.contains(kept), "{text}");
        rows[1].cases[0].figures.clear();
        let text = render(&PRELOAD, &rows);
        assert_eq!(text.matches("- **not checked**: sekisho").count(), 2);
        rows.pop();
        let text = render(&PRELOAD, &rows);
        let missing = "- **not checked**: `ecdsa-1000000` is not measured\n";
        assert_eq!(text.matches(missing).count(), 2, "{text}");
    }

    #[test]
    fn all_rows_of_a_claim_are_rows_of_its_part() {
        for id in FLAT {
            assert!(PRELOAD.rows.iter().any(|row| row.id == id), "{id}");
        }
        let cases = THROUGHPUT.rows.iter().flat_map(|row| row.cases);
        assert!(cases.into_iter().any(|case| case.label == BY_VARIABLE));
    }

    #[test]
    fn dynamic_certificates_are_compared_with_those_of_the_same_row() {
        let case = |label, cpu| CaseResult::new(label, &[vec![(figure::CPU, cpu)]], None);
        let compared = |id, cpu| {
            let preloaded = case("nginx, preloaded", 100.0);
            let mut variable = case(BY_VARIABLE, cpu);
            variable.divide_by(&preloaded);
            row(id, vec![preloaded, variable])
        };
        let rows = [compared("tls13-10", 100.9), compared("tls13-100", 101.2)];
        let text = render(&THROUGHPUT, &rows);
        for line in [
            "- **kept**: `tls13-10`: 1.009 of server CPU µs, of 1.01\n",
            "- **failed**: `tls13-100`: 1.012 of server CPU µs, of 1.01\n",
            "- **not checked**: `tls12-10` has no ratio of this case\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
