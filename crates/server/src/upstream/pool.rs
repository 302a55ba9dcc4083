//! Connections of one worker to upstream servers. They belong to the worker's
//! runtime; no request waits for another worker.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use foldhash::quality::RandomState;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep};

use super::limits;
use super::transport::Endpoint;
use super::upload::Upload;
use super::watch::Watch;
use crate::site::Protocol;

/// Identity of connections that requests may share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) endpoint: Endpoint,
    pub(super) protocol: Protocol,
    /// Number of the TLS identity; 0 without TLS.
    pub(super) tls: u64,
    /// Number of the client's connection where the upstream is told its
    /// addresses; else 0.
    pub(super) client: u64,
    /// Edition of the own addresses by which `[sites] allow` judged the connection
    /// when it was opened. None for the operator's own site, which is not judged.
    pub(super) judged: Option<u64>,
    /// Hash of the tenant. 0 for the operator's own site, and for HTTP/1.1: a
    /// connection that serves one request at a time may serve any tenant's.
    pub(super) tenant: u64,
}

/// Unused connections of a worker, by identity; at most [`MAX_IDLE`].
#[derive(Debug, Default)]
pub(crate) struct Pools {
    slots: Mutex<Slots>,
    idle: AtomicUsize,
}

/// State of one identity.
#[derive(Debug, Default)]
struct Slot {
    /// Unused HTTP/1.1 connections, the last used at the end.
    idle: Vec<Idle>,
    /// HTTP/2 connections.
    shared: Vec<Shared>,
    /// Right to open an HTTP/2 connection: further requests wait for it.
    opening: Option<Arc<Semaphore>>,
    /// Whether the server last chose HTTP/1.1: requests then open connections
    /// without waiting for one another.
    chose_one: bool,
}

#[derive(Debug)]
struct Idle {
    connection: Box<One>,
    /// When the server may close it.
    until: Instant,
}

/// HTTP/1.1 connection, which serves one request at a time.
#[derive(Debug)]
pub(super) struct One {
    pub(super) sender: http1::SendRequest<Upload>,
    pub(super) watch: Arc<Watch>,
    /// Ends the connection's task.
    pub(super) task: AbortHandle,
    /// Bounds the wait for an answer. All requests have one timer in turn: moved to
    /// later, it takes no lock.
    timer: Pin<Box<Sleep>>,
    /// Served a request before.
    pub(super) reused: bool,
}

/// HTTP/2 connection.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) sender: http2::SendRequest<Upload>,
    pub(super) streams: Arc<Streams>,
}

/// Streams of an HTTP/2 connection. Relaxed: one thread.
#[derive(Debug)]
pub(super) struct Streams {
    open: AtomicUsize,
    /// Field blocks that the server may still send.
    blocks: AtomicUsize,
    /// Most open streams that the server allows.
    pub(super) most: AtomicUsize,
    /// When the last stream ended.
    used: Mutex<Instant>,
    /// Place of the connection among those of its server.
    slot: OnceLock<limits::Slot>,
}

/// Connection that a request may use.
pub(super) enum Found {
    One(Box<One>),
    Two(Shared),
    /// None: open one, for HTTP/2 with this right.
    None(Option<Arc<Semaphore>>),
}

impl Pools {
    /// Takes an unused connection. `fresh` asks for a new one.
    pub(super) fn take(&self, key: &Key) -> Found {
        let mut slots = self.lock();
        let Some(slot) = slots.get_mut(key) else {
            if key.protocol == Protocol::Http1 {
                return Found::None(None);
            }
            let slot = self.slot(&mut slots, key);
            return Found::None(Some(Arc::clone(slot.opening())));
        };
        slot.shared.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = slot.shared.iter().find(|shared| shared.has_room()) {
            return Found::Two(shared.clone());
        }
        let now = Instant::now();
        while let Some(idle) = slot.idle.pop() {
            self.idle.fetch_sub(1, Relaxed);
            if idle.until > now && idle.connection.sender.is_ready() {
                return Found::One(idle.connection);
            }
        }
        let opening = (key.protocol != Protocol::Http1 && !slot.chose_one)
            .then(|| Arc::clone(slot.opening()));
        Found::None(opening)
    }

    /// Notes that a server chose HTTP/1.1.
    pub(super) fn chose_one(&self, key: &Key) {
        self.slot(&mut self.lock(), key).chose_one = true;
    }

    /// Gives back a connection whose answer is complete, unless it is not ready
    /// for another request.
    pub(super) fn give_back(&self, key: Key, mut connection: Box<One>, keep: Duration) {
        if !connection.sender.is_ready() || keep.is_zero() {
            return;
        }
        connection.rest();
        let mut slots = self.lock();
        if self.idle.load(Relaxed) >= MAX_IDLE {
            self.make_room(&mut slots);
        }
        let slot = match slots.get_mut(&key) {
            Some(slot) => slot,
            None => {
                self.bound(&mut slots);
                slots.entry(key).or_default()
            }
        };
        slot.idle.push(Idle {
            connection,
            until: Instant::now() + keep,
        });
        self.idle.fetch_add(1, Relaxed);
    }

    /// Adds an HTTP/2 connection.
    pub(super) fn share(&self, key: &Key, shared: Shared) {
        let mut slots = self.lock();
        let slot = self.slot(&mut slots, key);
        slot.chose_one = false;
        slot.shared.push(shared);
    }

    /// Closes connections that were unused for long, and forgets identities
    /// without any.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut slots = self.lock();
        slots.retain(|_, slot| {
            let before = slot.idle.len();
            slot.idle
                .retain(|idle| idle.until > now && !idle.connection.sender.is_closed());
            self.idle.fetch_sub(before - slot.idle.len(), Relaxed);
            slot.shared
                .retain(|shared| !shared.sender.is_closed() && !shared.is_unused(now));
            !slot.idle.is_empty() || !slot.shared.is_empty()
        });
    }

    /// Closes the unused connections of some identity.
    fn make_room(&self, slots: &mut Slots) {
        // The map's order is random, and changes with its content.
        if let Some(slot) = slots.values_mut().find(|slot| !slot.idle.is_empty()) {
            self.idle.fetch_sub(slot.idle.len(), Relaxed);
            slot.idle.clear();
        }
    }

    /// Returns the slot of an identity; makes room for a new one.
    fn slot<'a>(&self, slots: &'a mut Slots, key: &Key) -> &'a mut Slot {
        if !slots.contains_key(key) {
            self.bound(slots);
        }
        slots.entry(key.clone()).or_default()
    }

    /// Forgets an identity if there are as many as may be.
    fn bound(&self, slots: &mut Slots) {
        if slots.len() < MAX_SLOTS {
            return;
        }
        let victim = slots.keys().next().cloned();
        if let Some(slot) = victim.and_then(|victim| slots.remove(&victim)) {
            self.idle.fetch_sub(slot.idle.len(), Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Slots = HashMap<Key, Slot, RandomState>;

impl Slot {
    fn opening(&mut self) -> &Arc<Semaphore> {
        self.opening
            .get_or_insert_with(|| Arc::new(Semaphore::new(1)))
    }
}

impl One {
    pub(super) fn new(
        sender: http1::SendRequest<Upload>,
        watch: Arc<Watch>,
        task: AbortHandle,
    ) -> Self {
        Self {
            sender,
            watch,
            task,
            timer: Box::pin(sleep(Duration::ZERO)),
            reused: false,
        }
    }

    /// Sends a request without a body, and awaits the head of its answer for `limit`.
    /// Returns none if the head is late.
    pub(super) async fn ask(
        &mut self,
        request: Request<Upload>,
        limit: Duration,
    ) -> Option<Result<Response<Incoming>, TrySendError<Request<Upload>>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        let timer = &mut self.timer;
        timer.as_mut().reset(Instant::now() + limit);
        poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Ends a request. The timer may go on, but knows its task no longer.
    fn rest(&mut self) {
        self.reused = true;
        let _ = self
            .timer
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }
}

impl Shared {
    pub(super) fn new(sender: http2::SendRequest<Upload>, streams: Arc<Streams>) -> Self {
        Self { sender, streams }
    }

    fn has_room(&self) -> bool {
        self.streams.open.load(Relaxed) < self.streams.most.load(Relaxed).min(MAX_STREAMS)
    }

    fn is_unused(&self, now: Instant) -> bool {
        let used = *self.streams.lock();
        self.streams.open.load(Relaxed) == 0 && used + KEEP < now
    }
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            open: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            most: AtomicUsize::new(MAX_STREAMS),
            used: Mutex::new(Instant::now()),
            slot: OnceLock::new(),
        }
    }

    /// Keeps the connection's place as long as the connection.
    pub(super) fn keep(&self, slot: limits::Slot) {
        // Taken once, by the request that opened the connection.
        let _ = self.slot.set(slot);
    }

    /// Counts a stream until the guard is dropped.
    pub(super) fn open(self: &Arc<Self>) -> OpenStream {
        self.open.fetch_add(1, Relaxed);
        let blocks = self.blocks.load(Relaxed) + BLOCKS;
        self.blocks.store(blocks.min(MAX_STREAMS * BLOCKS), Relaxed);
        OpenStream(Arc::clone(self))
    }

    /// Notes a field block of the server. Returns false if it may send none: all
    /// streams' informational answers together were too many.
    pub(super) fn take_block(&self) -> bool {
        let left = self.blocks.load(Relaxed).checked_sub(1);
        self.blocks.store(left.unwrap_or(0), Relaxed);
        left.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stream of an HTTP/2 connection.
#[derive(Debug)]
pub(super) struct OpenStream(Arc<Streams>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
        *self.0.lock() = Instant::now();
    }
}

/// How long an unused connection is kept, unless the server says less.
pub(super) const KEEP: Duration = Duration::from_secs(60);

/// Unused connections of a worker; each takes some 20 KB.
const MAX_IDLE: usize = 1024;
/// Field blocks of a stream: eight informational answers, the final one, trailers.
const BLOCKS: usize = 10;
/// Identities of a worker.
const MAX_SLOTS: usize = 4096;
/// Streams of a connection, whatever the server allows.
pub(super) const MAX_STREAMS: usize = 100;
