//! Mark of rates that may be the client's.

use std::borrow::Cow;

use super::report::{CaseResult, Figure};
use super::rows::figure;

/// Returns whether the client used [`BUSY`] percent of its core or more: then its speed may
/// bound the rates.
pub(crate) fn is_client_busy(figures: &[Figure]) -> bool {
    let mut figures = figures.iter();
    let client = figures.find(|figure| figure.name == figure::CLIENT_BUSY);
    client.is_some_and(|client| client.median >= BUSY)
}

/// Returns the name of a figure, with the mark of a rate that may be the client's.
pub(crate) fn name<'a>(case: &CaseResult, figure: &'a Figure) -> Cow<'a, str> {
    let name = &figure.name;
    if is_of_client(case, name) {
        return format!("{name} (**the client's**)").into();
    }
    Cow::Borrowed(name)
}

/// Returns whether a figure is a rate that may be the client's.
pub(crate) fn is_of_client(case: &CaseResult, name: &str) -> bool {
    case.rates_of_client && RATES.contains(&name)
}

const BUSY: f64 = 70.0;
const RATES: [&str; 4] = [
    figure::RATE,
    figure::MOST_RATE,
    figure::STUCK_RATE,
    figure::WELL_RATE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_a_busy_client_are_marked() {
        let case = |rounds: [f64; 3]| {
            let round = |percent| {
                vec![
                    (figure::CPU, 4.0),
                    (figure::RATE, 9.0),
                    (figure::CLIENT_BUSY, percent),
                ]
            };
            CaseResult::new("sekisho", &rounds.map(round), None)
        };
        let names = |case: &CaseResult| -> Vec<String> {
            let figures = case.figures.iter();
            figures
                .map(|figure| name(case, figure).into_owned())
                .collect()
        };
        let idle = case([99.0, 69.9, 20.0]);
        assert!(!idle.rates_of_client);
        assert_eq!(names(&idle)[1], figure::RATE);
        let busy = case([70.0, 20.0, 99.0]);
        let json = serde_json::to_value(&busy).unwrap();
        assert_eq!(json["rates_of_client"], true);
        let marked = "per second (**the client's**)";
        assert_eq!(names(&busy), [figure::CPU, marked, figure::CLIENT_BUSY]);
    }
}
