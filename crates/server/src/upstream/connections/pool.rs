//! Connections of one worker to upstream servers. They belong to the worker's
//! runtime; no request waits for another worker.

mod http1;
mod room;
mod shared;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::quality::RandomState;
use sekisho_certs::{clock, lock};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::fastcgi::FastCgi;
use super::transport::Endpoint;
use crate::site::Protocol;
use crate::upstream::owned::Owner;
pub(in crate::upstream) use http1::Http1;
pub use room::unused_connections;
use room::{Unused, most_kept, spare};
pub(in crate::upstream) use shared::{MAX_STREAMS, OpenStream, Shared, Streams};

/// Identity of connections that requests may share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::upstream) struct Key {
    pub(in crate::upstream) endpoint: Endpoint,
    pub(in crate::upstream) protocol: Protocol,
    /// Number of the TLS identity; 0 without TLS.
    pub(in crate::upstream) tls: u64,
    /// Number of the client's connection where the upstream is told its
    /// addresses; else 0.
    pub(in crate::upstream) client: u64,
    /// Version of the own addresses by which `[sites] allow` judged the connection
    /// when it was opened. None for the operator's own site, which is not judged.
    pub(in crate::upstream) allowed_by: Option<u64>,
    /// A connection that one tenant's client left in disorder serves no other tenant's.
    pub(in crate::upstream) owner: Owner,
}

/// Connections of a worker, by identity: unused ones of HTTP/1.1 and FastCGI, and those of
/// HTTP/2.
/// Unused ones are closed where there are more than [`MAX_KEPT`].
pub(crate) struct Pools {
    slots: Mutex<Slots>,
    /// Connections in `slots`. Relaxed: changed under its lock.
    kept: AtomicUsize,
    most: usize,
}

/// State of one identity.
#[derive(Default)]
struct Slot {
    /// Unused connections of HTTP/1.1 and FastCGI, the last used at the end.
    idle: Vec<Unshared>,
    /// HTTP/2 connections.
    shared: Vec<Shared>,
    /// Permit to open an HTTP/2 connection: further requests wait for it.
    opening: Option<Arc<Semaphore>>,
    /// Notified when a stream ends, and when a connection comes about.
    room: Option<Arc<Notify>>,
    /// Whether the server last chose HTTP/1.1: requests then open connections
    /// without waiting for one another.
    chose_http1: bool,
}

struct Unshared {
    /// Of HTTP/1.1 or FastCGI.
    connection: Opened,
    since: Instant,
    /// When the server may close it.
    until: Instant,
    /// Makes room for another. Relaxed: one thread.
    is_spare: AtomicBool,
}

/// Connection that a request may use.
pub(in crate::upstream) enum Opened {
    Http1(Box<Http1>),
    Http2(Shared),
    FastCgi(Box<FastCgi>),
}

impl Opened {
    /// Returns whether another request may use it.
    fn is_ready(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.sender.is_ready(),
            Self::Http2(shared) => shared.has_room(),
            Self::FastCgi(connection) => connection.is_ready(),
        }
    }

    /// Returns whether another request may use it, now or soon.
    fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(connection) => !connection.sender.is_closed(),
            Self::Http2(shared) => !shared.sender.is_closed(),
            Self::FastCgi(connection) => connection.is_ready(),
        }
    }
}

/// Result of a look for a connection.
pub(in crate::upstream) enum Found {
    Unused(Opened),
    /// No connection: the request opens one, for HTTP/2 with this permit.
    Missing(Option<Arc<Semaphore>>),
}

impl Pools {
    /// Makes the pool of each of `workers`.
    pub(crate) fn new(workers: usize) -> Self {
        Self::of(most_kept(workers))
    }

    fn of(most: usize) -> Self {
        Self {
            slots: Mutex::default(),
            kept: AtomicUsize::new(0),
            most,
        }
    }

    /// Takes an unused connection.
    pub(in crate::upstream) fn take(&self, key: &Key, now: Instant) -> Found {
        let mut slots = lock(&self.slots);
        let slot = match slots.get_mut(key) {
            Some(slot) => slot,
            None if !key.protocol.may_share() => return Found::Missing(None),
            None => self.slot(&mut slots, key),
        };
        let before = slot.shared.len();
        slot.shared.retain(|shared| !shared.sender.is_closed());
        self.kept.fetch_sub(before - slot.shared.len(), Relaxed);
        if let Some(shared) = slot.shared.iter().find(|shared| shared.has_room()) {
            return Found::Unused(Opened::Http2(shared.clone()));
        }
        while let Some(mut idle) = slot.idle.pop() {
            self.kept.fetch_sub(1, Relaxed);
            if idle.until > now && idle.connection.is_ready() {
                return Found::Unused(idle.connection);
            }
        }
        if !key.protocol.may_share() || slot.chose_http1 {
            return Found::Missing(None);
        }
        let one = || Arc::new(Semaphore::new(1));
        Found::Missing(Some(Arc::clone(slot.opening.get_or_insert_with(one))))
    }

    /// Notes that a server chose HTTP/1.1.
    pub(in crate::upstream) fn chose_http1(&self, key: &Key) {
        self.slot(&mut lock(&self.slots), key).chose_http1 = true;
    }

    /// Gives back a connection whose answer is complete, unless it is not ready
    /// for another request.
    pub(in crate::upstream) fn give_back(&self, key: &Key, mut connection: Opened, keep: Duration) {
        if !connection.is_ready() || keep.is_zero() {
            return;
        }
        let mut slots = lock(&self.slots);
        if !self.make_room(&mut slots) {
            return;
        }
        let slot = match slots.get_mut(key) {
            Some(slot) => slot,
            None => self.slot(&mut slots, key),
        };
        let since = clock::monotonic();
        slot.idle.push(Unshared {
            connection,
            since,
            until: since + keep,
            is_spare: AtomicBool::new(false),
        });
        self.kept.fetch_add(1, Relaxed);
    }

    /// Returns what is notified when an HTTP/2 connection may have room.
    pub(in crate::upstream) fn room(&self, key: &Key) -> Arc<Notify> {
        let mut slots = lock(&self.slots);
        Arc::clone(self.slot(&mut slots, key).room())
    }

    /// Adds an HTTP/2 connection.
    pub(in crate::upstream) fn share(&self, key: &Key, shared: Shared) {
        let mut slots = lock(&self.slots);
        // Requests are about to use this one: it is kept in any case.
        self.make_room(&mut slots);
        let slot = self.slot(&mut slots, key);
        slot.chose_http1 = false;
        let room = slot.room();
        // Set once, by the request that opened the connection.
        let _ = shared.streams.room.set(Arc::clone(room));
        room.notify_waiters();
        slot.shared.push(Shared {
            reused: true,
            ..shared
        });
        self.kept.fetch_add(1, Relaxed);
    }

    /// Closes connections that were unused for long, and forgets identities
    /// without any.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut slots = lock(&self.slots);
        for slot in slots.values_mut() {
            slot.idle
                .retain_mut(|idle| idle.until > now && idle.connection.is_open());
            slot.shared
                .retain(|shared| !shared.sender.is_closed() && !shared.is_unused(now));
        }
        self.forget_empty(&mut slots);
    }

    /// Closes unused connections if there are too many. Returns whether there is room.
    fn make_room(&self, slots: &mut Slots) -> bool {
        if self.kept.load(Relaxed) < self.most {
            return true;
        }
        let unused = slots.iter().flat_map(|(key, slot)| slot.unused(key));
        spare(unused.collect(), self.most);
        self.close_spare(slots);
        self.kept.load(Relaxed) < self.most
    }

    /// Closes unused connections of these owners, the oldest first.
    pub(crate) fn close_unused(&self, of: impl Fn(Owner) -> bool) {
        let mut slots = lock(&self.slots);
        let unused = slots.iter().flat_map(|(key, slot)| slot.unused(key));
        let mut unused: Vec<_> = unused.filter(|unused| of(unused.owner)).collect();
        unused.sort_unstable_by_key(|unused| unused.since);
        for unused in unused.iter().take(CLOSED_AT_ONCE) {
            unused.is_spare.store(true, Relaxed);
        }
        self.close_spare(&mut slots);
    }

    /// Closes those that make room for others.
    fn close_spare(&self, slots: &mut Slots) {
        for slot in slots.values_mut() {
            slot.idle.retain(|idle| !idle.is_spare.load(Relaxed));
            slot.shared
                .retain(|shared| !shared.streams.is_spare.load(Relaxed));
        }
        self.forget_empty(slots);
    }

    /// Forgets identities without connections, and counts those of the others.
    fn forget_empty(&self, slots: &mut Slots) {
        slots.retain(|_, slot| !slot.is_empty());
        let kept = slots.values().map(Slot::kept).sum();
        self.kept.store(kept, Relaxed);
    }

    /// Returns the slot of an identity; makes room for a new one.
    fn slot<'a>(&self, slots: &'a mut Slots, key: &Key) -> &'a mut Slot {
        if !slots.contains_key(key) {
            self.bound(slots);
        }
        slots.entry(key.clone()).or_default()
    }

    /// Forgets identities if there are as many as may be: those without a connection, else
    /// any. Requests that use its connections of HTTP/2 go on.
    fn bound(&self, slots: &mut Slots) {
        if slots.len() < MAX_SLOTS {
            return;
        }
        self.forget_empty(slots);
        if slots.len() < MAX_SLOTS {
            return;
        }
        let victim = slots.keys().next().cloned();
        if let Some(slot) = victim.and_then(|victim| slots.remove(&victim)) {
            self.kept.fetch_sub(slot.kept(), Relaxed);
        }
    }
}

type Slots = HashMap<Key, Slot, RandomState>;

impl Slot {
    fn kept(&self) -> usize {
        self.idle.len() + self.shared.len()
    }

    /// Returns whether there is no connection, and no request opens one or waits.
    fn is_empty(&self) -> bool {
        let is_opening = |opening: &Arc<Semaphore>| Arc::strong_count(opening) > 1;
        let is_awaited = |room: &Arc<Notify>| Arc::strong_count(room) > 1;
        self.kept() == 0
            && !self.opening.as_ref().is_some_and(is_opening)
            && !self.room.as_ref().is_some_and(is_awaited)
    }

    fn unused<'a>(&'a self, key: &Key) -> impl Iterator<Item = Unused<'a>> {
        let (is_clients, owner) = (key.client != 0, key.owner);
        let idle = self.idle.iter().map(|idle| (idle.since, &idle.is_spare));
        let shared = self.shared.iter().filter(|shared| shared.has_no_stream());
        let shared = shared.map(|shared| {
            let streams = &shared.streams;
            (*lock(&streams.used), &streams.is_spare)
        });
        idle.chain(shared).map(move |(since, is_spare)| Unused {
            owner,
            is_clients,
            since,
            newer: 0,
            is_spare,
        })
    }

    fn room(&mut self) -> &Arc<Notify> {
        self.room.get_or_insert_default()
    }
}

/// How long an unused connection is kept; of HTTP/1.1, unless the server says less.
pub(in crate::upstream) const KEEP: Duration = Duration::from_secs(60);

/// Unused connections that a worker closes where a descriptor is missing.
const CLOSED_AT_ONCE: usize = 64;

/// Identities of a worker.
const MAX_SLOTS: usize = 4096;

#[cfg(test)]
mod tests {
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::duplex;

    use super::*;

    fn key(owner: Owner, port: u16) -> Key {
        Key {
            endpoint: Endpoint::Tcp(([127, 0, 0, 1], port).into()),
            protocol: Protocol::Http1,
            tls: 0,
            client: 0,
            allowed_by: None,
            owner,
        }
    }

    /// Gives back a new connection of an owner.
    async fn give_back(pools: &Pools, port: u16, owner: Owner) {
        let (near, far) = duplex(64);
        let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
        let task = tokio::spawn(async move {
            let _far = far;
            let _ = connection.await;
        });
        sender.ready().await.unwrap();
        let connection = Http1::new(sender, Arc::default(), Arc::default(), task.abort_handle());
        let connection = Opened::Http1(Box::new(connection));
        pools.give_back(&key(owner, port), connection, KEEP);
    }

    #[tokio::test]
    async fn an_owner_with_many_connections_closes_none_of_anothers() {
        let pools = Pools::of(4);
        give_back(&pools, 1, 7).await;
        for port in 2..40 {
            give_back(&pools, port, 8).await;
            assert!(pools.kept.load(Relaxed) <= 4);
        }
        let now = Instant::now();
        assert!(matches!(pools.take(&key(7, 39), now), Found::Missing(_)));
        assert!(matches!(pools.take(&key(7, 1), now), Found::Unused(_)));
        assert!(matches!(pools.take(&key(8, 2), now), Found::Missing(_)));
        assert!(matches!(pools.take(&key(8, 39), now), Found::Unused(_)));
        assert_eq!(pools.kept.load(Relaxed), 2);
    }
}
