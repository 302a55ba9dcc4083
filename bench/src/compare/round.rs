//! The cases of a row in turn, A B A B.

use std::time::Instant;

use super::machine;
use super::markdown::number;
use super::measure::{Sample, Subject};
use super::prepare::Unprepared;
use super::report::{CaseResult, RowResult};
use super::rows::Row;
use super::setup::Place;

pub(crate) async fn measure(
    place: Place<'_>,
    row: &Row,
    missing: Option<&Unprepared>,
) -> RowResult {
    let options = place.options;
    eprintln!("{}: {}", row.id, row.title);
    let begin = Instant::now();
    let cases = row.cases.iter().filter(|case| {
        let optional = case.optional && !options.with_preloaded_100k;
        let skipped = optional || (options.peers_only && case.setup.is_sekisho());
        !skipped
    });
    let mut running: Vec<Running<'_>> = cases
        .enumerate()
        .map(|(index, case)| Running {
            subject: Subject::new(place, row, case, format!("{}-{index}", row.id)),
            samples: Vec::new(),
            error: missing
                .and_then(|missing| missing.reason(case.setup))
                .map(str::to_owned),
        })
        .collect();
    let rounds = row.rounds(options.rounds());
    for round in 1..=rounds {
        for case in &mut running {
            case.sample(&format!("  {round}/{rounds}")).await;
        }
    }
    RowResult {
        id: row.id,
        title: row.title,
        hosts: row.hosts.count(options.quick),
        seconds: begin.elapsed().as_secs_f64(),
        load: machine::load_average(),
        cases: results(row, running),
    }
}

/// A case and what it has shown so far.
struct Running<'a> {
    subject: Subject<'a>,
    samples: Vec<Sample>,
    /// A case that failed once is not tried again.
    error: Option<String>,
}

impl Running<'_> {
    async fn sample(&mut self, progress: &str) {
        if self.error.is_some() {
            return;
        }
        let label = self.subject.case.label;
        match self.subject.sample().await {
            Ok(sample) => {
                if let Some((name, value)) = sample.first() {
                    eprintln!("{progress} {label}: {} {name}", number(*value));
                }
                self.samples.push(sample);
            }
            Err(error) => {
                eprintln!("{progress} {label} failed: {error:#}");
                self.error = Some(format!("{error:#}"));
            }
        }
    }
}

fn results(row: &Row, running: Vec<Running<'_>>) -> Vec<CaseResult> {
    let mut divisors: Option<Vec<(&'static str, f64)>> = None;
    let mut cases = Vec::new();
    for case in running {
        let Running {
            subject,
            samples,
            error,
        } = case;
        let mut result = CaseResult::new(subject.case.label, &samples, error);
        result.commands.clone_from(&subject.commands);
        if let Some(divisors) = &divisors {
            result.divide_by(divisors);
        } else {
            let medians = result.figures.iter();
            divisors = Some(medians.map(|figure| (figure.name, figure.median)).collect());
        }
        cases.push((result, subject.case.setup.is_sekisho()));
    }
    let (mut cases, is_sekisho): (Vec<CaseResult>, Vec<bool>) = cases.into_iter().unzip();
    let verdicts: Vec<_> = cases
        .iter()
        .map(|case| case.verdicts(row.goals, &cases))
        .collect();
    for ((case, verdicts), is_sekisho) in cases.iter_mut().zip(verdicts).zip(is_sekisho) {
        if is_sekisho {
            case.verdicts = verdicts;
        }
    }
    cases
}
