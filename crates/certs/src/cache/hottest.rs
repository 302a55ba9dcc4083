//! The names of the hottest records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

use super::uses::Heat;
use super::{Cache, Note, Served, wildcard_key};
use crate::host::HostName;

impl<V> Cache<V> {
    /// Returns at most `limit` names, the hottest first. A load of each of them caches what
    /// is cached now: a wildcard stands there by the name that it was read for. If that
    /// wildcard is shadowed, its aliases take a quarter of the list at most, by its heat.
    ///
    /// The walk copies each key, some 0.2 s for a million of them, and locks a shard for one
    /// entry at a time.
    pub(crate) fn hottest(&self, limit: usize, now: u64) -> Vec<HostName> {
        let mut records = Hottest::new(limit);
        for (_, served) in self.records.iter() {
            records.add(served.state.uses.heat(now), || name(&served));
        }
        let mut aliases = Hottest::new(limit / 4);
        for (name, note) in self.notes.iter() {
            let Note::Alias { .. } = note else { continue };
            let above = wildcard_key(&name).and_then(|key| self.records.peek(key));
            if let Some(above) = above
                && above.state.shadowed.load(Ordering::Relaxed)
            {
                let name = || HostName::parse(&name).ok();
                aliases.add(above.state.uses.heat(now), name);
            }
        }
        records.limit = limit - aliases.names.len();
        records.cut();
        let mut all: Vec<_> = records.names.into_iter().chain(aliases.names).collect();
        all.sort_unstable();
        all.into_iter().map(|Reverse((_, name))| name).collect()
    }
}

/// Returns a name that is answered with this record.
fn name<V>(served: &Served<V>) -> Option<HostName> {
    let read_for = served.state.read_for.as_ref();
    read_for
        .cloned()
        .or_else(|| served.host.record.pattern.exact())
}

/// The hottest names so far, the coldest of them on top.
struct Hottest {
    names: BinaryHeap<Reverse<(Heat, HostName)>>,
    limit: usize,
}

impl Hottest {
    fn new(limit: usize) -> Self {
        Self {
            names: BinaryHeap::new(),
            limit,
        }
    }

    fn add(&mut self, heat: Heat, name: impl FnOnce() -> Option<HostName>) {
        let is_full = self.names.len() >= self.limit;
        let coldest = self.names.peek().map(|Reverse((heat, _))| *heat);
        if is_full && coldest.is_none_or(|coldest| heat <= coldest) {
            return;
        }
        if let Some(name) = name() {
            self.names.push(Reverse((heat, name)));
            self.cut();
        }
    }

    fn cut(&mut self) {
        while self.names.len() > self.limit {
            self.names.pop();
        }
    }
}
