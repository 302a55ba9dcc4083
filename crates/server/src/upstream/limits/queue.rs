//! Requests that wait for a connection, by host.

use std::collections::{HashMap, VecDeque};

use foldhash::quality::RandomState;
use tokio::sync::oneshot;

use super::{Asker, Bounds, Denied, MOST, Slot};

/// Requests that wait, in lines by host.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: HashMap<Asker, VecDeque<Waiting>, RandomState>,
    /// Hosts in the order of their turns, each once.
    turns: VecDeque<Asker>,
    all: u32,
    by_tenant: HashMap<u64, u32, RandomState>,
}

#[derive(Debug)]
struct Waiting {
    connections: u32,
    slot: oneshot::Sender<Slot>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Returns how many requests of a tenant wait. Some may have left.
    pub(super) fn of_tenant(&self, tenant: u64) -> u32 {
        self.by_tenant.get(&tenant).copied().unwrap_or(0)
    }

    /// Adds a request at the end of its host's line.
    pub(super) fn enter(
        &mut self,
        asker: Asker,
        bounds: Bounds,
    ) -> Result<oneshot::Receiver<Slot>, Denied> {
        if !self.has_room(asker.tenant, bounds.waiting) {
            self.make_room(asker, bounds.waiting)?;
        }
        let (slot, turn) = oneshot::channel();
        let line = self.lines.entry(asker).or_default();
        if line.is_empty() {
            self.turns.push_back(asker);
        }
        line.push_back(Waiting {
            connections: bounds.connections,
            slot,
        });
        self.all += 1;
        *self.by_tenant.entry(asker.tenant).or_default() += 1;
        Ok(turn)
    }

    /// Returns the next request that `take` gets a slot for, with its tenant. Its host
    /// moves to the end of the turns.
    pub(super) fn next(
        &mut self,
        mut take: impl FnMut(u64, u32) -> bool,
    ) -> Option<(u64, oneshot::Sender<Slot>)> {
        let mut turn = 0;
        while let Some(asker) = self.turns.get(turn).copied() {
            self.remove_left(asker);
            let line = self.lines.get_mut(&asker);
            let Some(first) = line.as_ref().and_then(|line| line.front()) else {
                self.lines.remove(&asker);
                self.turns.remove(turn);
                continue;
            };
            if !take(asker.tenant, first.connections) {
                turn += 1;
                continue;
            }
            let first = line.and_then(VecDeque::pop_front)?;
            self.turns.remove(turn);
            match self.lines.get(&asker).is_some_and(VecDeque::is_empty) {
                true => drop(self.lines.remove(&asker)),
                false => self.turns.push_back(asker),
            }
            self.count_less(asker.tenant, 1);
            return Some((asker.tenant, first.slot));
        }
        None
    }

    fn has_room(&self, tenant: u64, bound: u32) -> bool {
        self.of_tenant(tenant) < bound.min(MOST.saturating_sub(self.all))
    }

    /// Removes requests of the tenant that left. If that makes no room, drops the
    /// newest of its longest line; a host whose own line is about as long is refused.
    fn make_room(&mut self, asker: Asker, bound: u32) -> Result<(), Denied> {
        let tenant = asker.tenant;
        let mut left = 0;
        for (of, line) in &mut self.lines {
            if of.tenant == tenant {
                let before = line.len();
                line.retain(|waiting| !waiting.slot.is_closed());
                left += before - line.len();
            }
        }
        self.count_less(tenant, left);
        self.sweep();
        if self.has_room(tenant, bound) {
            return Ok(());
        }
        let own = self.lines.get(&asker).map_or(0, VecDeque::len);
        let lines = self.lines.iter_mut();
        let longest = lines
            .filter(|(of, line)| of.tenant == tenant && line.len() > own + 1)
            .max_by_key(|(_, line)| line.len());
        // Dropping the sender refuses its request.
        let dropped = longest.and_then(|(_, line)| line.pop_back());
        dropped.map(drop).ok_or(Denied::Full)?;
        self.count_less(tenant, 1);
        Ok(())
    }

    /// Removes requests that left from the front of a line.
    fn remove_left(&mut self, asker: Asker) {
        let Some(line) = self.lines.get_mut(&asker) else {
            return;
        };
        let mut left = 0;
        while line.front().is_some_and(|first| first.slot.is_closed()) {
            line.pop_front();
            left += 1;
        }
        self.count_less(asker.tenant, left);
    }

    fn count_less(&mut self, tenant: u64, left: usize) {
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        if left == 0 {
            return;
        }
        self.all = self.all.saturating_sub(left);
        if let Some(count) = self.by_tenant.get_mut(&tenant) {
            *count = count.saturating_sub(left);
            if *count == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }

    fn sweep(&mut self) {
        self.lines.retain(|_, line| !line.is_empty());
        self.turns.retain(|asker| self.lines.contains_key(asker));
    }
}
