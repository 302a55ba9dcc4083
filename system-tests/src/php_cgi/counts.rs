//! Counts of answers, by whose they are.

use std::cell::Cell;
use std::fmt;

/// Why an answer is not the one that was asked for.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Answer to another tenant, or to another client.
    Crossed(String),
    /// Another answer than the script's.
    Wrong(String),
    /// The server has no answer of the script: 502, 503, 504, or the connection ended.
    Away(String),
}

pub(super) type Judged = Result<(), Fault>;

/// Totals of a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    requests: Cell<u64>,
    wrong: Cell<u64>,
    crossings: Cell<u64>,
    /// Requests without an answer while php-fpm was away.
    away: Cell<u64>,
    /// Set while php-fpm may be away.
    pub(super) is_restarting: Cell<bool>,
}

impl Counts {
    /// Counts an answer, and prints what is wrong with it.
    pub(super) fn note(&self, what: &str, judged: Judged) {
        increment(&self.requests);
        match judged {
            Ok(()) => {}
            Err(Fault::Away(_)) if self.is_restarting.get() => increment(&self.away),
            Err(Fault::Away(why) | Fault::Wrong(why)) => self.complain(&self.wrong, what, &why),
            Err(Fault::Crossed(why)) => self.complain(&self.crossings, what, &why),
        }
    }

    fn complain(&self, count: &Cell<u64>, what: &str, why: &str) {
        increment(count);
        if count.get() <= MOST_PRINTED {
            println!("{what}: {why}");
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.get()
    }

    pub(super) fn away(&self) -> u64 {
        self.away.get()
    }

    pub(super) fn is_right(&self) -> bool {
        self.wrong.get() + self.crossings.get() == 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, wrong) = (self.requests.get(), self.wrong.get());
        let crossings = self.crossings.get();
        write!(
            f,
            "{requests} requests, {wrong} wrong, {crossings} crossings"
        )
    }
}

fn increment(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// Complaints of a kind: the first ones tell what is wrong.
const MOST_PRINTED: u64 = 20;
