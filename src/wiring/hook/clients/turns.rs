//! Shares of the turns of `http.get`, by client prefix and by server.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;
use http::uri::{Authority, Scheme};
use sekisho_certs::Prefix;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds on the requests of one client prefix and to one server. Each is less than
/// all turns of the client: the others get through.
pub(super) struct Turns {
    prefixes: Arc<Shares<Option<Prefix>>>,
    servers: Arc<Shares<(Option<Scheme>, Option<Authority>)>>,
}

impl Turns {
    /// Makes the shares.
    pub(super) fn new() -> Self {
        Self {
            prefixes: Shares::new(PER_PREFIX),
            servers: Shares::new(PER_SERVER),
        }
    }

    /// Waits for a place of the client's prefix, then for one of the server. Whoever has
    /// none of the prefix keeps no place of the server.
    pub(super) async fn shares(&self, client: Option<IpAddr>, to: &Uri) -> impl Send + use<> {
        let prefix = self.prefixes.enter(client.map(Prefix::from)).await;
        let server = (to.scheme().cloned(), to.authority().cloned());
        (prefix, self.servers.enter(server).await)
    }
}

/// Semaphores by key, each there only while somebody uses it. The runs that wait
/// bound their number.
struct Shares<K: Eq + Hash> {
    each: usize,
    of: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// Place of a key, or the wait for one.
struct Place<K: Eq + Hash> {
    shares: Arc<Shares<K>>,
    key: K,
    permit: Option<OwnedSemaphorePermit>,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    fn new(each: usize) -> Arc<Self> {
        Arc::new(Self {
            each,
            of: Mutex::default(),
        })
    }

    /// Waits for a place, first come first served.
    async fn enter(self: &Arc<Self>, key: K) -> Place<K> {
        let share = {
            let mut of = self.lock();
            let share = of.entry(key.clone());
            Arc::clone(share.or_insert_with(|| Arc::new(Semaphore::new(self.each))))
        };
        // Before the wait: who leaves amid it must leave no semaphore behind.
        let mut place = Place {
            shares: Arc::clone(self),
            key,
            permit: None,
        };
        let permit = share.acquire_owned().await;
        place.permit = Some(permit.expect("it is never closed"));
        place
    }
}

impl<K: Eq + Hash> Shares<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<Semaphore>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut of = self.shares.lock();
        drop(self.permit.take());
        // Under the lock, only those who have the semaphore count.
        if of
            .get(&self.key)
            .is_some_and(|share| Arc::strong_count(share) == 1)
        {
            of.remove(&self.key);
        }
    }
}

/// A quarter of the turns.
const PER_PREFIX: usize = 16;
/// Half of the turns.
const PER_SERVER: usize = 32;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn enter(turns: &Turns, client: &str, to: &'static str) -> Option<impl Send + use<>> {
        let client = client.parse().unwrap();
        let shares = turns.shares(Some(client), &Uri::from_static(to)).await;
        Some(shares)
    }

    #[tokio::test(start_paused = true)]
    async fn shares_are_bounded_by_prefix_and_by_server() {
        let turns = Turns::new();
        let soon = Duration::from_millis(1);
        let mut kept = Vec::new();
        for host in 0..PER_PREFIX {
            kept.push(enter(&turns, &format!("192.0.2.{host}"), "https://slow/a").await);
        }
        let more = timeout(soon, enter(&turns, "192.0.2.99", "https://other/")).await;
        assert!(more.is_err(), "the prefix has a quarter");
        for host in 0..PER_SERVER - PER_PREFIX {
            kept.push(enter(&turns, &format!("198.51.{host}.1"), "https://slow/b").await);
        }
        let more = timeout(soon, enter(&turns, "203.0.113.1", "https://slow/c")).await;
        assert!(more.is_err(), "the server has half");
        let other = timeout(soon, enter(&turns, "203.0.113.1", "https://other/")).await;
        assert!(other.is_ok());
        drop((kept, more, other));
        assert!(turns.prefixes.lock().is_empty() && turns.servers.lock().is_empty());
    }
}
