//! Tests that the judge finds every violation, and counts no right answer as
//! one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::judge::{Judge, Seen, Visit};
use super::ledger::State;

#[test]
fn right_answers_are_no_violations() {
    let mut judge = judge();
    for second in 10..20 {
        judge.visit(&visit(second, "a", sees("a", 0)));
    }
    judge.visit(&visit(20, "nobody", Seen::Unknown));
    assert_eq!(judge.counts.violations(), 0, "{:?}", judge.complaints());
    assert_eq!((judge.counts.handshakes, judge.counts.cached), (11, 9));
}

#[test]
fn another_hosts_certificate_is_found() {
    let mut judge = judge();
    judge.visit(&visit(10, "a", sees("b", 0)));
    assert_eq!(judge.counts.wrong_certificates, 1);
    judge.visit(&visit(10, "nobody", sees("a", 0)));
    assert_eq!(judge.counts.wrong_certificates, 2);
    // No write of this generation was begun.
    judge.visit(&visit(10, "a", sees("a", 9)));
    assert_eq!(judge.counts.wrong_certificates, 3);
    assert_eq!(
        (judge.counts.violations(), judge.complaints().len()),
        (3, 3)
    );
}

#[test]
fn a_failure_counts_once_the_host_is_cached() {
    let mut judge = judge();
    let failed = Seen::Failed("an alert".into());
    judge.visit(&visit(10, "a", failed.clone()));
    assert_eq!(
        (judge.counts.violations(), judge.counts.uncached_failures),
        (0, 1)
    );
    judge.visit(&visit(11, "a", sees("a", 0)));
    // Another server or process need not have it cached.
    let elsewhere = Visit {
        server: 1,
        ..visit(12, "a", failed.clone())
    };
    judge.visit(&elsewhere);
    let restarted = Visit {
        process: 1,
        ..visit(12, "a", failed.clone())
    };
    judge.visit(&restarted);
    let ending = Visit {
        running: false,
        ..visit(12, "a", failed.clone())
    };
    judge.visit(&ending);
    assert_eq!(judge.counts.violations(), 0, "{:?}", judge.complaints());
    judge.visit(&visit(13, "a", failed));
    assert_eq!(judge.counts.cached_failures, 1);
    judge.visit(&visit(14, "a", Seen::Unknown));
    assert_eq!(
        (judge.counts.cached_failures, judge.counts.false_absences),
        (2, 1)
    );
}

#[test]
fn a_failure_during_a_change_is_none() {
    let mut judge = judge();
    judge.visit(&visit(10, "a", sees("a", 0)));
    judge.ledger.begin("a", State::Generation(1), at(11));
    judge.visit(&visit(12, "a", Seen::Failed("an alert".into())));
    judge.ledger.acknowledge("a", at(13));
    judge.visit(&visit(14, "a", Seen::Failed("an alert".into())));
    assert_eq!(judge.counts.violations(), 0, "{:?}", judge.complaints());
}

#[test]
fn a_replaced_certificate_is_found_once_it_must_be_gone() {
    let mut judge = judge();
    write(&mut judge, "a", State::Generation(1), 20);
    judge.visit(&visit(21, "a", sees("a", 0)));
    assert_eq!(judge.counts.violations(), 0, "{:?}", judge.complaints());
    judge.visit(&visit(23, "a", sees("a", 0)));
    assert_eq!(judge.counts.stale, 1);
    write(&mut judge, "a", State::Absent, 30);
    judge.visit(&visit(33, "a", sees("a", 1)));
    assert_eq!(judge.counts.stale, 2);
}

#[test]
fn a_host_that_is_there_is_not_unknown() {
    let mut judge = judge();
    judge.visit(&visit(10, "a", Seen::Unknown));
    assert_eq!(
        (judge.counts.false_absences, judge.counts.cached_failures),
        (1, 0)
    );
}

#[test]
fn a_request_without_an_answer_is_found() {
    let mut judge = judge();
    judge.visit(&visit(10, "a", sees("a", 0)));
    let unanswered = Seen::Certificate {
        host: "a".into(),
        generation: 0,
        unanswered: Some("503".into()),
    };
    judge.visit(&visit(11, "a", unanswered));
    assert_eq!(judge.counts.unanswered, 1);
    judge.cut_off("a download".into());
    assert_eq!(judge.counts.violations(), 2);
}

#[test]
fn lost_writes_are_found_in_the_catalog_and_on_the_servers() {
    let right = [("a", vec![0]), ("b", vec![0])];
    assert_eq!(lost(&right), 0);
    // Missing, unknown generation, two generations, unknown host.
    assert_eq!(lost(&right[..1]), 1);
    assert_eq!(lost(&[("a", vec![7]), ("b", vec![0])]), 1);
    assert_eq!(lost(&[("a", vec![0, 1]), ("b", vec![0])]), 1);
    assert_eq!(lost(&[("a", vec![0]), ("b", vec![0]), ("c", vec![0])]), 1);
    let mut judge = judge();
    judge.at_the_end(&visit(20, "a", sees("a", 0)), State::Generation(0));
    assert_eq!(judge.counts.violations(), 0, "{:?}", judge.complaints());
    let failed = Seen::Failed("late".into());
    judge.at_the_end(&visit(20, "b", failed), State::Generation(0));
    assert_eq!(judge.counts.lost_writes, 1);
}

fn lost(found: &[(&str, Vec<u64>)]) -> u64 {
    let mut judge = judge();
    let found: BTreeMap<_, _> = found
        .iter()
        .map(|(host, generations)| ((*host).to_owned(), generations.clone()))
        .collect();
    judge.database(&found);
    judge.counts.lost_writes
}

/// Makes a judge for hosts `a` and `b`, which were written long ago.
fn judge() -> Judge {
    let mut judge = Judge::default();
    for host in ["a", "b"] {
        write(&mut judge, host, State::Generation(0), 0);
    }
    judge
}

fn write(judge: &mut Judge, host: &str, state: State, second: u64) {
    judge.ledger.begin(host, state, at(second));
    judge.ledger.acknowledge(host, at(second));
}

fn visit(second: u64, host: &str, seen: Seen) -> Visit {
    Visit {
        server: 0,
        process: 0,
        running: true,
        host: host.into(),
        from: at(second),
        to: at(second) + Duration::from_millis(1),
        seen,
    }
}

fn sees(host: &str, generation: u64) -> Seen {
    Seen::Certificate {
        host: host.into(),
        generation,
        unanswered: None,
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
