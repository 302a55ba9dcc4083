//! Rounds: the cases of a row in turn, in the order A B B A.

use std::time::Instant;

use super::condition::{Condition, Watch};
use super::left_out::LeftOut;
use super::machine;
use super::markdown::number;
use super::measure::{Sample, Subject};
use super::options::{Binary, Options};
use super::prepare::Unprepared;
use super::report::{CaseResult, RowResult, TRAINED};
use super::rows::{Case, Goal, Measure, Row, Scale, figure};
use super::server::relative;
use super::setup::Place;

/// Measures all cases of a row, or those with these labels.
pub(crate) async fn measure(
    place: Place<'_>,
    row: &Row,
    missing: Option<&Unprepared>,
    only: Option<&[&str]>,
) -> RowResult {
    let options = place.options;
    eprintln!("{}: {}", row.id, row.title);
    let begin = Instant::now();
    let (mut cases, left_out) = cases(place, row);
    cases.retain(|case| only.is_none_or(|only| only.contains(&case.label)));
    let turns = turns(options, row, &cases).into_iter().enumerate();
    let mut running: Vec<Running<'_>> = turns
        .map(|(index, turn)| Running {
            subject: Subject::new(
                place,
                row,
                turn.case,
                turn.binary,
                format!("{}-{index}", row.id),
            ),
            divisor: turn.divisor,
            samples: Vec::new(),
            machine: Vec::new(),
            error: missing
                .and_then(|missing| missing.reason(turn.case.setup))
                .map(str::to_owned),
        })
        .collect();
    let rounds = row.rounds(options.rounds());
    for round in 1..=rounds {
        let progress = format!("  {round}/{rounds}");
        // A steady drift of the machine helps each case as often as it harms
        // it.
        let back = round % 2 == 0;
        if let Measure::Loaded { percent, .. } = row.measure {
            set_rate(&mut running, percent).await;
        }
        for turn in 0..running.len() {
            let turn = if back { running.len() - 1 - turn } else { turn };
            running[turn].sample(&progress).await;
        }
    }
    RowResult {
        id: row.id.into(),
        title: row.title.into(),
        hosts: {
            let cases = row.cases.iter();
            let hosts = cases.map(|case| row.hosts_of(case.content, options.is_short()));
            hosts.max().unwrap_or(0)
        },
        seconds: begin.elapsed().as_secs_f64(),
        load: machine::load_average(),
        cases: results(options, row, &running),
        left_out,
    }
}

/// Returns the cases of a run, and those that a peer can't run.
fn cases<'a>(place: Place<'_>, row: &'a Row) -> (Vec<&'a Case>, Vec<LeftOut>) {
    let (mut cases, mut left_out) = (Vec::new(), Vec::new());
    for case in row.cases.iter().filter(|case| is_run(place.options, case)) {
        match LeftOut::find(place, row, case) {
            None => cases.push(case),
            Some(case) => {
                eprintln!("  left out: {case}");
                left_out.push(case);
            }
        }
    }
    (cases, left_out)
}

/// Sets the rate of a round: a percentage of what the first server, which others are
/// compared with, can take at this time.
async fn set_rate(running: &mut [Running<'_>], percent: u32) {
    let can_tell = |first: &&mut Running<'_>| first.error.is_none() && first.divisor.is_some();
    let Some(first) = running.first_mut().filter(can_tell) else {
        return;
    };
    match first.subject.saturate(percent).await {
        Ok(rate) => {
            let cases = running.iter_mut();
            cases.for_each(|running| running.subject.rate = Some(rate));
        }
        Err(error) => {
            eprintln!("  {} failed: {error:#}", first.label());
            first.error = Some(format!("{error:#}"));
        }
    }
}

/// Returns whether a run with these options includes the case.
pub(crate) fn is_run(options: &Options, case: &Case) -> bool {
    if case.setup.is_sekisho() {
        !options.peers_only
    } else {
        options.has_peers() && (!case.optional || options.with_preloaded_100k)
    }
}

/// Turn of a case within each round.
struct Turn<'a> {
    case: &'a Case,
    binary: Binary,
    /// Index of the turn that divides this one, maybe its own; None if that one is missing.
    divisor: Option<usize>,
}

/// Returns the turns in the order of the first round. The first case divides the others: if
/// it is one of sekisho, each build divides its own. No other case takes its place.
fn turns<'a>(options: &Options, row: &Row, cases: &[&'a Case]) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let firsts = match cases.first() {
        Some(first) if first.label == row.cases[0].label => binaries(options, first).len(),
        _ => 0,
    };
    for case in cases {
        let baseline = options.against.as_ref().map(|_| turns.len());
        for binary in binaries(options, case) {
            let mut first = turns.iter().take(firsts);
            let own = first.position(|turn| turn.binary == *binary);
            let first = own.or((firsts > 0).then_some(0));
            turns.push(Turn {
                case,
                binary: *binary,
                divisor: baseline.or(first),
            });
        }
    }
    turns
}

fn binaries(options: &Options, case: &Case) -> &'static [Binary] {
    match case.setup.is_sekisho() {
        true => options.binaries(),
        false => &[Binary::Measured],
    }
}

/// Case with its samples so far.
struct Running<'a> {
    subject: Subject<'a>,
    divisor: Option<usize>,
    samples: Vec<Sample>,
    machine: Vec<Condition>,
    /// Error of a failed case, which is not tried again.
    error: Option<String>,
}

impl Running<'_> {
    fn label(&self) -> String {
        let label = self.subject.case.label;
        match self.subject.binary {
            Binary::Measured => label.to_owned(),
            Binary::Baseline => format!("{label} (baseline)"),
            Binary::Trained => format!("{label}{TRAINED}"),
        }
    }

    fn is_judged(&self) -> bool {
        self.subject.case.setup.is_sekisho() && self.subject.binary != Binary::Baseline
    }

    async fn sample(&mut self, progress: &str) {
        if self.error.is_some() || self.subject.series.ended.is_some() {
            return;
        }
        let label = self.label();
        let watch = Watch::start();
        let sampled = self.subject.sample().await;
        self.machine.extend(watch.and_then(Watch::stop));
        match sampled {
            Ok(sample) => {
                if let Some((name, value)) = sample.first() {
                    eprintln!("{progress} {label}: {} {name}", number(*value));
                }
                self.samples.push(sample);
            }
            Err(error) => match self.subject.ending(&error) {
                Some(ended) => {
                    eprintln!("{progress} {label} ended {ended}");
                    self.subject.series.ended = Some(ended);
                }
                None => {
                    eprintln!("{progress} {label} failed: {error:#}");
                    self.error = Some(format!("{error:#}"));
                }
            },
        }
    }
}

fn results(options: &Options, row: &Row, running: &[Running<'_>]) -> Vec<CaseResult> {
    let mut cases: Vec<CaseResult> = Vec::new();
    for (index, case) in running.iter().enumerate() {
        let error = case.error.as_deref().map(relative);
        let mut result = CaseResult::new(case.label(), &case.samples, error);
        let commands = case.subject.commands.iter();
        result.commands = commands.map(|command| relative(command)).collect();
        result.series.clone_from(&case.subject.series);
        result.machine.clone_from(&case.machine);
        if let Some(divisor) = case.divisor.filter(|divisor| *divisor < index) {
            result.divide_by(&cases[divisor]);
        }
        cases.push(result);
    }
    let goals = goals(options, row);
    let verdicts: Vec<_> = cases
        .iter()
        .map(|case| case.verdicts(&goals, &cases))
        .collect();
    for ((case, verdicts), running) in cases.iter_mut().zip(verdicts).zip(running) {
        if running.is_judged() {
            case.verdicts = verdicts;
        }
    }
    cases
}

/// Returns the goals of a row. Against a baseline, no row may be worse, and
/// goals relative to peers are dropped.
fn goals(options: &Options, row: &Row) -> Vec<Goal> {
    if options.against.is_none() {
        return row.goals.to_vec();
    }
    let absolute = row
        .goals
        .iter()
        .filter(|goal| goal.scale == Scale::Absolute);
    NO_WORSE.into_iter().chain(absolute.copied()).collect()
}

const NO_WORSE: [Goal; 3] = [
    no_worse(figure::CPU),
    no_worse(figure::EACH),
    no_worse(figure::START_CPU),
];

const fn no_worse(figure: &'static str) -> Goal {
    Goal {
        figure,
        scale: Scale::Ratio,
        must: 1.03,
        aim: None,
        case: None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::compare::browsers::PQ;
    use crate::compare::table::ROWS;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    type Order = Vec<(&'static str, Binary, Option<usize>)>;

    fn order(row: &'static Row, arguments: &[&str]) -> Order {
        let line = Line::parse_from(["compare"].iter().chain(arguments));
        let cases = row.cases.iter().filter(|case| is_run(&line.options, case));
        let cases: Vec<_> = cases.collect();
        let turns = turns(&line.options, row, &cases).into_iter();
        turns
            .map(|turn| (turn.case.label, turn.binary, turn.divisor))
            .collect()
    }

    #[test]
    fn a_baseline_takes_the_place_of_the_peers() {
        let nginx = ("nginx, 100 hosts preloaded", Binary::Measured, Some(0));
        let sekisho = ("sekisho", Binary::Measured, Some(0));
        let order = |arguments: &[&str]| order(&ROWS[0], arguments);
        assert_eq!(order(&[]), [nginx, sekisho]);
        assert_eq!(order(&["--peers-only"]), [nginx]);
        let baseline = ("sekisho", Binary::Baseline, Some(0));
        assert_eq!(order(&["--against", "old"]), [baseline, sekisho]);
        let trained = ("sekisho", Binary::Trained, Some(0));
        assert_eq!(order(&["--trained", "new"]), [nginx, sekisho, trained]);
        assert_eq!(order(&["--train"]), [("sekisho", Binary::Measured, None)]);
    }

    #[test]
    fn each_build_divides_its_own_cases() {
        let divisors = |arguments: &[&str]| -> Vec<Option<usize>> {
            let order = order(&PQ, arguments).into_iter();
            order.map(|(_, _, divisor)| divisor).collect()
        };
        assert_eq!(divisors(&[]), [Some(0); 3]);
        let trained = [0, 0, 0, 1, 0].map(Some);
        assert_eq!(divisors(&["--trained", "new"]), trained);
        assert_eq!(divisors(&["--against", "old"]), [0, 0, 2, 2].map(Some));
    }

    #[test]
    fn no_case_takes_the_place_of_a_missing_first_one() {
        let line = Line::parse_from(["compare"]);
        let cases: Vec<_> = PQ.cases[1..].iter().collect();
        let turns = turns(&line.options, &PQ, &cases);
        assert_eq!(turns.len(), 2);
        assert!(turns.iter().all(|turn| turn.divisor.is_none()));
    }

    #[test]
    fn against_a_baseline_a_row_may_be_worse_by_three_percent() {
        let line = Line::parse_from(["compare", "--against", "old"]);
        let goals = goals(&line.options, &ROWS[0]);
        let cpu: Vec<_> = goals
            .iter()
            .filter(|goal| goal.figure == figure::CPU)
            .collect();
        assert_eq!(cpu.len(), 1);
        assert_eq!((cpu[0].scale, cpu[0].must), (Scale::Ratio, 1.03));
    }
}
