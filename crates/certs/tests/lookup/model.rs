//! The lookup against a map: whatever is written, read, delivered and missed,
//! in any order, nobody is answered with less than the log had delivered
//! before they asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sekisho_certs::store::LogPosition;
use sekisho_certs::{Cached, FeedState, Follower, HostName, Obtained, Outcome, Wait};
use sekisho_testkit::Issuer;
use tokio::task::yield_now;

use crate::scripted::{LOG, Names, Scripted, held_store, host_change, host_version, obtaining};

/// More than the calls of one case.
const PERMITS: usize = 10_000;
const NAMES: [&str; 4] = ["a.w.test", "b.w.test", "w.test", "v.test"];
const PATTERNS: [&str; 6] = [
    "a.w.test", "b.w.test", "*.w.test", "w.test", "v.test", "*.test",
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize),
    Remove(usize),
    /// The feed brings this many changes.
    Deliver(usize),
    /// The feed finds a gap and starts over at the head.
    Restart,
    Ask(usize),
    /// As above, by a caller that must not issue.
    AskStored(usize),
    /// Reads that begin from here on end only with `Release`.
    Hold,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..PATTERNS.len()).prop_map(Step::Put),
        2 => (0..PATTERNS.len()).prop_map(Step::Remove),
        4 => (1..4_usize).prop_map(Step::Deliver),
        1 => Just(Step::Restart),
        5 => (0..NAMES.len()).prop_map(Step::Ask),
        3 => (0..NAMES.len()).prop_map(Step::AskStored),
        1 => Just(Step::Hold),
        1 => Just(Step::Release),
    ]
}

/// Patterns with the numbers of the changes that wrote them.
type Hosts = BTreeMap<&'static str, u64>;

fn answer(hosts: &Hosts, name: &HostName) -> Option<u64> {
    let wildcard = name.wildcard();
    let above = || hosts.get(wildcard.as_ref()?.as_str());
    hosts.get(name.as_str()).or_else(above).copied()
}

struct World {
    store: Arc<Scripted>,
    lookup: Arc<Names>,
    /// Contents of the store behind each change, and the change's subject.
    history: Vec<(Hosts, &'static str)>,
    delivered: usize,
    /// Names asked for, each with how much was delivered by then, and whether a certificate
    /// may be obtained.
    waiting: Vec<(HostName, usize, Wait<String>, bool)>,
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
            Step::Put(pattern) => self.write(PATTERNS[pattern], true),
            Step::Remove(pattern) => self.write(PATTERNS[pattern], false),
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
            Step::Ask(name) => self.ask(NAMES[name], true).await,
            Step::AskStored(name) => self.ask(NAMES[name], false).await,
            Step::Hold => self.store.hold(),
            Step::Release => self.release().await,
        }
    }

    fn write(&mut self, pattern: &'static str, put: bool) {
        let number = self.history.len() as u64;
        let mut hosts = self.history[self.history.len() - 1].0.clone();
        if put {
            hosts.insert(pattern, number);
            self.store.put(host_version(pattern, 1, number));
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

    async fn ask(&mut self, name: &str, may_issue: bool) {
        let name = HostName::parse(name).unwrap();
        let cached = match may_issue {
            true => self.lookup.cached(&name),
            false => self.lookup.cached_stored(&name),
        };
        let wait = match cached {
            Cached::Hit(outcome) => return self.check(&name, self.delivered, &outcome),
            Cached::InFlight(wait) => wait,
            Cached::Miss if may_issue => self.lookup.load(&name),
            Cached::Miss => self.lookup.read(&name, |_| ()),
        };
        self.waiting.push((name, self.delivered, wait, may_issue));
        yield_now().await;
        if !self.store.is_held() {
            self.release().await;
        }
    }

    async fn release(&mut self) {
        self.store.release(PERMITS);
        for (name, delivered, wait, may_issue) in std::mem::take(&mut self.waiting) {
            let outcome = match may_issue {
                true => wait.await,
                false => wait.stored().await,
            };
            self.check(&name, delivered, &outcome);
        }
    }

    fn check(&self, name: &HostName, delivered: usize, outcome: &Outcome<String>) {
        let found = match outcome {
            Outcome::Found(served) => Some(served.host().record.version),
            Outcome::Absent(_) => None,
            Outcome::Failed(error) => panic!("{name}: {error}"),
        };
        let mut since = self.history[delivered..].iter();
        assert!(
            since.any(|(hosts, _)| answer(hosts, name) == found),
            "{name}: {found:?} is older than change {delivered}"
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
                world.ask(name, true).await;
                world.ask(name, false).await;
            }
        });
    }
}
