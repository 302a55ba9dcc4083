//! Judge that compares what clients saw with what was written.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::counts::Counts;
use super::ledger::{Ledger, State};

/// Judge with the history of the run and its violations.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    pub(crate) ledger: Ledger,
    pub(crate) counts: Counts,
    served: HashMap<(usize, String), Served>,
    complaints: Vec<String>,
}

/// Connection of a client.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) server: usize,
    /// Number of the server's process, counted from its first.
    pub(crate) process: u32,
    /// True if the process served from the start to the end of the visit.
    pub(crate) running: bool,
    pub(crate) host: String,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) seen: Seen,
}

/// Result of a visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The handshake succeeded with this certificate.
    Certificate {
        host: String,
        generation: u64,
        /// Reason why the request was not answered, if it was not.
        unanswered: Option<String>,
    },
    /// The server sent the alert `unrecognized_name`.
    Unknown,
    /// The handshake failed for this reason.
    Failed(String),
}

impl Seen {
    /// Returns the state of the host that the client saw; None if the visit
    /// failed.
    pub(crate) fn state(&self) -> Option<State> {
        match self {
            Self::Certificate { generation, .. } => Some(State::Generation(*generation)),
            Self::Unknown => Some(State::Absent),
            Self::Failed(_) => None,
        }
    }
}

/// Time of the last right answer of a process for a host.
#[derive(Clone, Copy, Debug)]
struct Served {
    process: u32,
    from: Duration,
}

impl Judge {
    pub(crate) fn visit(&mut self, visit: &Visit) {
        let cached = self.is_cached(visit);
        self.counts.handshakes += 1;
        if cached {
            self.counts.of_a_cached_host(visit.to - visit.from);
        }
        match &visit.seen {
            Seen::Certificate {
                host,
                generation,
                unanswered,
            } => {
                if self.is_right(visit, host, State::Generation(*generation)) {
                    self.note(visit);
                }
                if let (true, Some(why)) = (cached, unanswered) {
                    self.unanswered(visit, why);
                }
            }
            Seen::Unknown => self.told_unknown(visit, cached),
            Seen::Failed(why) if cached => {
                self.counts.cached_failures += 1;
                self.complain(visit, &format!("is cached and failed: {why}"));
            }
            Seen::Failed(_) => self.counts.uncached_failures += 1,
        }
    }

    /// Counts a request that was in flight at its server's SIGTERM and was not
    /// answered.
    pub(crate) fn cut_off(&mut self, what: String) {
        self.counts.unanswered += 1;
        self.keep(what);
    }

    /// Compares the catalog at the end, as generations by host, with the
    /// writes.
    pub(crate) fn database(&mut self, found: &BTreeMap<String, Vec<u64>>) {
        let strangers: Vec<_> = found
            .keys()
            .filter(|host| !self.ledger.hosts().any(|known| known == *host))
            .cloned()
            .collect();
        for host in strangers {
            self.lost(format!("{host} is in the catalog and was never written"));
        }
        let hosts: Vec<_> = self.ledger.hosts().map(str::to_owned).collect();
        for host in hosts {
            let generations = found.get(&host).map_or(&[][..], Vec::as_slice);
            let wanted = self.ledger.last(&host);
            let is_right = match generations {
                [] => wanted.contains(&State::Absent),
                [one] => wanted.contains(&State::Generation(*one)),
                _ => false,
            };
            if !is_right {
                self.lost(format!(
                    "{host}: the catalog has {generations:?} instead of one of {wanted:?}"
                ));
            }
        }
    }

    /// Judges the final visit to a server: it must serve what the catalog has.
    pub(crate) fn at_the_end(&mut self, visit: &Visit, database: State) {
        self.visit(visit);
        if visit.seen.state() != Some(database) {
            self.lost(format!(
                "{}: the catalog has {database:?}, server {} says {:?}",
                visit.host, visit.server, visit.seen
            ));
        }
    }

    /// Returns the first violations.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Returns whether the host must be cached. This process has served it
    /// since its last change reached all servers, and no later write has begun.
    fn is_cached(&self, visit: &Visit) -> bool {
        let key = (visit.server, visit.host.clone());
        let served = self.served.get(&key);
        let served = served.filter(|served| served.process == visit.process);
        let settled = self.ledger.settled(&visit.host);
        visit.running
            && matches!((served, settled), (Some(served), Some(settled)) if settled <= served.from)
    }

    fn is_right(&mut self, visit: &Visit, host: &str, state: State) -> bool {
        if host != visit.host || !self.ledger.knows(host, state) {
            self.counts.wrong_certificates += 1;
            self.complain(visit, &format!("got the certificate of {host}, {state:?}"));
            return false;
        }
        let allowed = self.ledger.allowed(host, visit.from, visit.to);
        if allowed.contains(&state) {
            return true;
        }
        self.counts.stale += 1;
        self.complain(
            visit,
            &format!("got {state:?}, which {allowed:?} has replaced"),
        );
        false
    }

    fn note(&mut self, visit: &Visit) {
        let served = Served {
            process: visit.process,
            from: visit.from,
        };
        self.served
            .insert((visit.server, visit.host.clone()), served);
    }

    fn told_unknown(&mut self, visit: &Visit, cached: bool) {
        let allowed = self.ledger.allowed(&visit.host, visit.from, visit.to);
        if allowed.contains(&State::Absent) {
            self.served.remove(&(visit.server, visit.host.clone()));
            return;
        }
        if cached {
            self.counts.cached_failures += 1;
        }
        self.counts.false_absences += 1;
        self.complain(
            visit,
            &format!("was told to be unknown instead of {allowed:?}"),
        );
    }

    fn unanswered(&mut self, visit: &Visit, why: &str) {
        self.counts.unanswered += 1;
        self.complain(visit, &format!("was not answered: {why}"));
    }

    fn lost(&mut self, what: String) {
        self.counts.lost_writes += 1;
        self.keep(what);
    }

    fn complain(&mut self, visit: &Visit, what: &str) {
        self.keep(format!(
            "at {:.3} s, server {}, process {}: {} {what}",
            visit.to.as_secs_f64(),
            visit.server,
            visit.process,
            visit.host
        ));
    }

    fn keep(&mut self, what: String) {
        if self.complaints.len() < MAX_COMPLAINTS {
            self.complaints.push(what);
        }
    }
}

/// The first violations show the cause; the counts include the rest.
const MAX_COMPLAINTS: usize = 20;
