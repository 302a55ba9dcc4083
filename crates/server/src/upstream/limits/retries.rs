//! Budget of retries on one server, shared by its tenants.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Budget of retries on one server: a fifth of its requests and three per second.
/// A server that fails all requests thus gets a fifth more of them, not twice as
/// many.
///
/// A tenant takes at most as many as are left (*dynamic threshold*): alone, half of what
/// was saved up and then all that is earned. A tenant whose requests always fail thus
/// leaves others as many as it took, and what is earned is shared by all that take some.
#[derive(Debug)]
pub(in crate::upstream) struct Retries {
    /// Requests so far. Relaxed: a race loses one request.
    requests: AtomicU64,
    /// Locked by retries alone.
    state: Mutex<State>,
}

/// Amounts in thousandths of a retry.
#[derive(Debug)]
struct State {
    left: u64,
    /// Time of the last refill, in milliseconds.
    filled: u64,
    /// Requests at the last refill.
    counted: u64,
    /// Tenants that took some lately, [`MOST_TENANTS`] at most.
    debts: Vec<Debt>,
}

/// Retries that a tenant took and the server has not earned again.
#[derive(Debug)]
struct Debt {
    tenant: u64,
    taken: u64,
}

impl Retries {
    pub(in crate::upstream) fn new(now: u64) -> Self {
        Self {
            requests: AtomicU64::new(0),
            state: Mutex::new(State {
                left: FIRST * RETRY,
                filled: now,
                counted: 0,
                debts: Vec::new(),
            }),
        }
    }

    /// Notes a request that is no retry.
    pub(in crate::upstream) fn request(&self) {
        // Cheaper than an atomic addition.
        let requests = self.requests.load(Relaxed);
        self.requests.store(requests.wrapping_add(1), Relaxed);
    }

    /// Takes one retry for a request of a tenant, if it may have one.
    pub(in crate::upstream) fn take(&self, tenant: u64, now: u64) -> bool {
        let mut state = self.lock();
        state.refill(self.requests.load(Relaxed), now);
        state.take(tenant)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds what was earned since the last refill.
    fn refill(&mut self, requests: u64, now: u64) {
        // A race may have counted a request less.
        let counted = requests.wrapping_sub(self.counted);
        let counted = if counted > u64::MAX / 2 { 0 } else { counted };
        let passed = now.saturating_sub(self.filled);
        self.counted = requests;
        self.filled = self.filled.max(now);
        let earned = counted
            .saturating_mul(PER_REQUEST)
            .saturating_add(passed.saturating_mul(PER_SECOND));
        self.left = self.left.saturating_add(earned).min(MOST * RETRY);
        self.pay(earned);
    }

    /// Pays debts in equal parts: what a tenant does not need is shared by the others.
    fn pay(&mut self, mut earned: u64) {
        while earned > 0 && !self.debts.is_empty() {
            let part = (earned / self.debts.len() as u64).max(1);
            for debt in &mut self.debts {
                let paid = debt.taken.min(part).min(earned);
                debt.taken -= paid;
                earned -= paid;
            }
            self.debts.retain(|debt| debt.taken > 0);
        }
    }

    fn take(&mut self, tenant: u64) -> bool {
        let of_tenant = |debt: &Debt| debt.tenant == tenant;
        let known = self.debts.iter().position(of_tenant);
        let taken = known.map_or(0, |index| self.debts[index].taken) + RETRY;
        let Some(left) = self.left.checked_sub(RETRY).filter(|left| taken <= *left) else {
            return false;
        };
        self.left = left;
        match known {
            Some(index) => self.debts[index].taken = taken,
            None => self.add(Debt { tenant, taken }),
        }
        true
    }

    /// Adds a debt; forgets the smallest if there are too many.
    fn add(&mut self, debt: Debt) {
        if self.debts.len() >= MOST_TENANTS {
            let debts = self.debts.iter().enumerate();
            let least = debts.min_by_key(|(_, debt)| debt.taken);
            if let Some(least) = least.map(|(index, _)| index) {
                self.debts.swap_remove(least);
            }
        }
        self.debts.push(debt);
    }
}

/// A retry, in thousandths.
const RETRY: u64 = 1000;
/// Thousandths that a request adds: a fifth of a retry.
const PER_REQUEST: u64 = 200;
/// Retries per second, which are thousandths per millisecond.
const PER_SECOND: u64 = 3;
/// Retries at the start. A tenant has half of them: enough until a server that is gone is
/// ejected.
const FIRST: u64 = 20;
/// Most retries that are saved up.
const MOST: u64 = 200;
/// Tenants whose debts are known, 16 bytes each. So many leave no retry to another.
const MOST_TENANTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ACME: u64 = 7;
    const OTHER: u64 = 8;

    fn takes(retries: &Retries, tenant: u64, now: u64) -> usize {
        let taken = (0..1000).take_while(|_| retries.take(tenant, now));
        taken.count()
    }

    fn requests(retries: &Retries, count: usize) {
        (0..count).for_each(|_| retries.request());
    }

    #[test]
    fn a_server_without_requests_has_three_retries_per_second() {
        let retries = Retries::new(1);
        assert_eq!(takes(&retries, ACME, 1), 10);
        assert_eq!(takes(&retries, ACME, 1_001), 3);
        assert_eq!(takes(&retries, ACME, 1_300), 0);
        assert_eq!(takes(&retries, ACME, 1_335), 1);
        assert_eq!(takes(&retries, ACME, u64::MAX), 100);
    }

    #[test]
    fn a_fifth_of_the_requests_may_be_retried() {
        let retries = Retries::new(1);
        takes(&retries, ACME, 1);
        requests(&retries, 50);
        assert_eq!(takes(&retries, ACME, 1), 10);
        requests(&retries, 10_000);
        assert_eq!(takes(&retries, ACME, 1), 100);
    }

    #[test]
    fn a_tenant_that_takes_all_it_may_leaves_others_theirs() {
        let retries = Retries::new(1);
        requests(&retries, 10_000);
        assert_eq!(takes(&retries, ACME, 1), 100);
        assert_eq!(takes(&retries, OTHER, 1), 50);
        // Requests pay the debts of both.
        requests(&retries, 500);
        let (acme, other) = (takes(&retries, ACME, 1), takes(&retries, OTHER, 1));
        assert_eq!((acme, other), (50, 50));
        for _ in 0..100 {
            requests(&retries, 100);
            takes(&retries, ACME, 1);
        }
        assert!(takes(&retries, OTHER, 1) >= 49);
    }

    #[test]
    fn tenants_are_known_in_bounded_number() {
        let retries = Retries::new(1);
        for tenant in 0..1000 {
            requests(&retries, 10);
            retries.take(tenant, 1);
            assert!(retries.lock().debts.len() <= MOST_TENANTS);
        }
        assert_eq!(takes(&retries, ACME, u64::MAX), 100);
        assert_eq!(retries.lock().debts.len(), 1);
    }
}
