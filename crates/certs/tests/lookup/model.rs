//! The lookup against a map: whatever is written, read, delivered and missed,
//! in any order, nobody is answered with less than the log had delivered
//! before they asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sekisho_certs::store::LogPosition;
use sekisho_certs::{AnyWait, Cached, FeedState, Follower, HostName, Obtained, Outcome, Wait};
use sekisho_testkit::Issuer;
use tokio::task::yield_now;

use crate::scripted::{
    LOG, Names, Scripted, bare_version, held_store, host_change, host_version, obtaining,
};

/// More than the calls of one case.
const PERMITS: usize = 10_000;
const NAMES: [&str; 4] = ["a.w.test", "b.w.test", "w.test", "v.test"];
const PATTERNS: [&str; 6] = [
    "a.w.test", "b.w.test", "*.w.test", "w.test", "v.test", "*.test",
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize),
    /// Writes a record without a credential.
    PutBare(usize),
    Remove(usize),
    /// The feed brings this many changes.
    Deliver(usize),
    /// The feed finds a gap and starts over at the head.
    Restart,
    Ask(Asker, usize),
    /// Reads that begin from here on end only with `Release`.
    Hold,
    Release,
}

/// Caller of the lookup.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asker {
    /// May have a certificate obtained.
    Visitor,
    /// Must not issue.
    Stored,
    /// Must not issue, and is served by a record without a credential, too.
    Plain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..PATTERNS.len()).prop_map(Step::Put),
        3 => (0..PATTERNS.len()).prop_map(Step::PutBare),
        2 => (0..PATTERNS.len()).prop_map(Step::Remove),
        4 => (1..4_usize).prop_map(Step::Deliver),
        1 => Just(Step::Restart),
        5 => (0..NAMES.len()).prop_map(|name| Step::Ask(Asker::Visitor, name)),
        3 => (0..NAMES.len()).prop_map(|name| Step::Ask(Asker::Stored, name)),
        5 => (0..NAMES.len()).prop_map(|name| Step::Ask(Asker::Plain, name)),
        1 => Just(Step::Hold),
        1 => Just(Step::Release),
    ]
}

/// Patterns with the numbers of the changes that wrote them, and whether they have a
/// credential.
type Hosts = BTreeMap<&'static str, (u64, bool)>;

fn answer(hosts: &Hosts, name: &HostName, asker: Asker) -> Option<u64> {
    let wildcard = name.wildcard();
    let above = || hosts.get(wildcard.as_ref()?.as_str());
    let (number, is_certified) = hosts.get(name.as_str()).or_else(above)?;
    (*is_certified || asker == Asker::Plain).then_some(*number)
}

/// Wait for an answer.
enum Waiting {
    Any(Wait<String>),
    Plain(AnyWait<String>),
}

struct World {
    store: Arc<Scripted>,
    lookup: Arc<Names>,
    /// Contents of the store behind each change, and the change's subject.
    history: Vec<(Hosts, &'static str)>,
    delivered: usize,
    /// Names asked for, each with how much was delivered by then, and who asked.
    waiting: Vec<(HostName, usize, Waiting, Asker)>,
}

impl World {
    fn new() -> Self {
        let store = held_store();
        store.release(PERMITS);
        let refused = Obtained::Refused { retry_after: None };
        let issuer = Issuer::new(move |_, _| refused.clone());
        let lookup = obtaining(&store, 1 << 20, Arc::new(issuer));
        lookup.restart(LogPosition {
            log: LOG,
            number: 0,
            mark: 0,
        });
        lookup.feed_is(FeedState::Healthy);
        Self {
            store,
            lookup,
            history: vec![(Hosts::new(), "")],
            delivered: 0,
            waiting: Vec::new(),
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Put(pattern) => self.write(PATTERNS[pattern], Some(true)),
            Step::PutBare(pattern) => self.write(PATTERNS[pattern], Some(false)),
            Step::Remove(pattern) => self.write(PATTERNS[pattern], None),
            Step::Deliver(count) => self.deliver(count),
            Step::Restart => {
                self.delivered = self.history.len() - 1;
                let number = self.delivered as u64;
                self.lookup.restart(LogPosition {
                    log: LOG,
                    number,
                    mark: 0,
                });
            }
            Step::Ask(asker, name) => self.ask(NAMES[name], asker).await,
            Step::Hold => self.store.hold(),
            Step::Release => self.release().await,
        }
    }

    /// Writes a record with a credential or without one, or removes it.
    fn write(&mut self, pattern: &'static str, certified: Option<bool>) {
        let number = self.history.len() as u64;
        let mut hosts = self.history[self.history.len() - 1].0.clone();
        if let Some(is_certified) = certified {
            hosts.insert(pattern, (number, is_certified));
            self.store.put(match is_certified {
                true => host_version(pattern, 1, number),
                false => bare_version(pattern, number),
            });
        } else if hosts.remove(pattern).is_none() {
            return;
        } else {
            self.store.remove(pattern);
        }
        self.history.push((hosts, pattern));
    }

    fn deliver(&mut self, count: usize) {
        for _ in 0..count.min(self.history.len() - 1 - self.delivered) {
            self.delivered += 1;
            let (_, pattern) = self.history[self.delivered];
            self.lookup
                .apply(&host_change(self.delivered as u64, pattern));
        }
    }

    async fn ask(&mut self, name: &str, asker: Asker) {
        let name = HostName::parse(name).unwrap();
        let cached = match asker {
            Asker::Visitor => self.lookup.cached(&name),
            Asker::Stored => self.lookup.cached_stored(&name),
            Asker::Plain => match self.lookup.hit_any(&name) {
                Some(outcome) => Cached::Hit(outcome),
                None => Cached::Miss,
            },
        };
        let wait = match (cached, asker) {
            (Cached::Hit(outcome), _) => {
                return self.check(&name, self.delivered, &outcome, asker);
            }
            (Cached::InFlight(wait), _) => Waiting::Any(wait),
            (Cached::Miss, Asker::Visitor) => Waiting::Any(self.lookup.load(&name)),
            (Cached::Miss, Asker::Stored) => Waiting::Any(self.lookup.read(&name, |_| ())),
            (Cached::Miss, Asker::Plain) => Waiting::Plain(self.lookup.read_any(&name, |_| ())),
        };
        self.waiting.push((name, self.delivered, wait, asker));
        yield_now().await;
        if !self.store.is_held() {
            self.release().await;
        }
    }

    async fn release(&mut self) {
        self.store.release(PERMITS);
        for (name, delivered, wait, asker) in std::mem::take(&mut self.waiting) {
            let outcome = match wait {
                Waiting::Any(wait) if asker == Asker::Visitor => wait.await,
                Waiting::Any(wait) => wait.stored().await,
                Waiting::Plain(wait) => wait.stored().await,
            };
            self.check(&name, delivered, &outcome, asker);
        }
    }

    fn check(&self, name: &HostName, delivered: usize, outcome: &Outcome<String>, asker: Asker) {
        let found = match outcome {
            Outcome::Found(served) => Some(served.host().record.version),
            Outcome::Absent(_) => None,
            Outcome::Failed(error) => panic!("{name}: {error}"),
        };
        let mut since = self.history[delivered..].iter();
        assert!(
            since.any(|(hosts, _)| answer(hosts, name, asker) == found),
            "{asker:?} {name}: {found:?} is older than change {delivered}"
        );
    }
}

proptest! {
    #[test]
    fn nobody_gets_less_than_was_delivered(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for step in steps {
                world.take(step).await;
            }
            world.release().await;
            world.deliver(usize::MAX);
            for name in NAMES {
                for asker in [Asker::Visitor, Asker::Stored, Asker::Plain] {
                    world.ask(name, asker).await;
                }
            }
        });
    }
}
