//! Report in Markdown, for people.

use std::fmt::Write;

use super::condition;
use super::mark;
use super::report::{CaseResult, Figure, Grade, Report, RowResult, Verdict};

pub(crate) fn render(report: &Report) -> String {
    let Report { title, guide, .. } = report;
    let mut text = format!("# {title}\n\n{METHOD}");
    let _ = writeln!(
        text,
        "[bench/README.md]({guide}) says what the rows of the stores and some others do.\n"
    );
    text.push_str("## Where\n\n");
    for (name, value) in &report.facts {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(text, "- command: `{}`", report.command);
    text.push_str("\n## Summary\n\n");
    text.push_str("| row | what | case | median | ratio | must | aim | reached |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for row in &report.rows {
        for case in &row.cases {
            text.push_str(&summary_line(row, case));
        }
    }
    for row in &report.rows {
        text.push_str(&details(row));
    }
    text
}

fn summary_line(row: &RowResult, case: &CaseResult) -> String {
    let (figure, ratio) = case.figures.first().map_or_else(
        || {
            let ended = case.series.ended.as_ref();
            let ended = ended.map(|ended| format!("ended {ended}"));
            (ended.unwrap_or_else(|| "failed".to_owned()), String::new())
        },
        |figure| {
            let value = format!("{} {}", number(figure.median), mark::name(case, figure));
            (value, ratio(figure))
        },
    );
    let verdicts = |part: fn(&Verdict) -> String| {
        let parts: Vec<String> = case.verdicts.iter().map(part).collect();
        parts.join(", ")
    };
    format!(
        "| {} | {} | {} | {figure} | {ratio} | {} | {} | {} |\n",
        row.id,
        row.title,
        case.label,
        verdicts(|verdict| number(verdict.must)),
        verdicts(|verdict| verdict.aim.map_or_else(|| "-".to_owned(), number)),
        verdicts(grade),
    )
}

fn grade(verdict: &Verdict) -> String {
    let grade = match verdict.grade {
        Grade::Aim => "aim",
        Grade::Must => "must",
        Grade::Missed => "**missed**",
    };
    let (reached, figure) = (number(verdict.reached), &verdict.figure);
    if verdict.ratio {
        format!("{grade} (ratio {reached}, {figure})")
    } else {
        format!("{grade} ({reached} {figure})")
    }
}

fn details(row: &RowResult) -> String {
    let mut text = format!("\n## {}: {}\n\n", row.id, row.title);
    let _ = writeln!(
        text,
        "{} hosts in the store, {:.0} s, load average {} at the end.\n",
        row.hosts, row.seconds, row.load
    );
    text.push_str("| case | figure | median | ratio | every round |\n");
    text.push_str("| --- | --- | --- | --- | --- |\n");
    for case in &row.cases {
        for figure in &case.figures {
            let values: Vec<String> = figure.values.iter().copied().map(number).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                case.label,
                mark::name(case, figure),
                number(figure.median),
                ratio(figure),
                values.join(", ")
            );
        }
    }
    for case in &row.cases {
        if let Some(error) = &case.error {
            let _ = writeln!(text, "\n{} failed: {error}", case.label);
        }
        if let Some(ended) = &case.series.ended {
            let _ = writeln!(text, "\n{} ended early: {ended}.", case.label);
        }
    }
    let conditions = row.cases.iter().flat_map(|case| &case.machine);
    if let Some(machine) = condition::describe(&conditions.collect::<Vec<_>>()) {
        let _ = writeln!(text, "\n{machine}");
    }
    for case in &row.left_out {
        let _ = writeln!(text, "\nLeft out: {case}.");
    }
    text.push_str("\n```\n");
    for command in row.cases.iter().flat_map(|case| &case.commands) {
        let _ = writeln!(text, "{command}");
    }
    text.push_str("```\n");
    text
}

fn ratio(figure: &Figure) -> String {
    figure
        .ratio
        .map_or_else(String::new, |ratio| format!("{ratio:.3}"))
}

/// Formats a number with three digits or more: further digits would be noise.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

const METHOD: &str = "\
Each server has one core and one worker, the client has another core. The servers of a row run \
side by side and are measured in turn, round by round, in the opposite order in every second round; medians \
count. All of them have the same \
certificates: leaf and intermediate in the sizes of Let's Encrypt's. The client offers TLS 1.3 \
with AES-128-GCM and X25519 alone (row `pq`: X25519MLKEM768 alone; TLS 1.2: ECDHE with \
AES-128-GCM, key exchange by X25519), \
keeps 16 connections going, asks for a page of 612 bytes, checks the answer, and reads to the \
end of the connection. It verifies no certificates while it measures; a verified request comes \
first. The files that a sample will read are read once before it, for both servers.\n\n\
A ratio is the median of the ratios of all rounds. It is judged by cycles where this machine \
counts them for both cases, else by CPU time. Instructions and cycles are counted by the \
processor for all threads of the server (perf_event_open).\n\n\
A rate is marked as the client's if the client used 70 % of its core or more: the server may be \
able to do more than that.\n\n\
CPU time is the time that all threads of all processes of the server were on a CPU, by their \
`schedstat` in nanoseconds; `utime` and `stime` say the same in steps of 10 ms. Time that a \
process waits for the CPU does not count. Memory is from `smaps_rollup`, summed over the \
server's processes; growth is taken from PSS, in which a page shared by two counts once. \
Start-up is the time from before the fork to the first answered request, with about 1 ms for \
`setpriv`.\n\n\
Redis and PostgreSQL run on the client's core; what they use themselves stands beside the server \
as Redis CPU and PostgreSQL CPU. A bound that depends on other figures of the row stands there as it came out. \
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::left_out::{Lack, LeftOut, PeerKind};
    use crate::compare::rows::{Goal, Scale, figure};

    #[test]
    fn a_report_shows_ratio_goal_rounds_and_error() {
        let first = CaseResult::new("nginx", &[vec![(figure::CPU, 400.0)]], None);
        let samples = [100.0, 120.0, 110.0].map(|value| vec![(figure::CPU, value)]);
        let mut second = CaseResult::new("sekisho", &samples, None);
        let divisor = [400.0, 400.0, 400.0].map(|value| vec![(figure::CPU, value)]);
        second.divide_by(&CaseResult::new("nginx", &divisor, None));
        let goal = Goal {
            figure: figure::CPU,
            scale: Scale::Ratio,
            must: 0.36,
            aim: Some(0.27),
            case: None,
        };
        second.verdicts = second.verdicts(&[goal], &[]);
        let third = CaseResult::new("broken", &[], Some("it wrote x.log".to_owned()));
        let text = render(&Report {
            title: "Comparison of 2026-01-02".to_owned(),
            command: "sekisho-bench compare".to_owned(),
            facts: vec![("CPU".to_owned(), "fast".to_owned())],
            guide: "../README.md",
            rows: vec![RowResult {
                id: "cached".into(),
                title: "handshakes".into(),
                hosts: 100,
                seconds: 1.0,
                load: "0.5".to_owned(),
                cases: vec![first, second, third],
                left_out: vec![LeftOut {
                    case: "other".to_owned(),
                    peer: PeerKind::Nginx,
                    lack: Lack::Group,
                }],
            }],
        });
        let line = "| cached | handshakes | sekisho | 110 server CPU µs | 0.275 | 0.36 | 0.27 \
                    | must (ratio 0.28, server CPU µs) |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("| 100, 120, 110 |"), "{text}");
        assert!(text.contains("broken failed: it wrote x.log"), "{text}");
        let left_out = "Left out: other: its OpenSSL has no such group.";
        assert!(text.contains(left_out), "{text}");
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.2749, 12.34, 391.4].map(number);
        assert_eq!(texts, ["0.27", "12.3", "391"]);
    }
}
