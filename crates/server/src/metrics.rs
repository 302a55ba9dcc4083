//! What operators watch.

mod labels;
mod process;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use sekisho_certs::metrics::{Registry, Writer, read};

pub use labels::{HandshakeResult, LookupResult};
pub use process::register_process;

/// What connections count. Shared behind one `Arc` by all workers.
///
/// All label values are fixed words of the program; nothing that a client
/// sends becomes a label.
#[derive(Debug)]
pub struct Metrics {
    handshakes: [AtomicU64; HandshakeResult::ALL.len()],
    lookups: [AtomicU64; LookupResult::ALL.len()],
    requests: [AtomicU64; STATUS_CLASSES.len()],
    expired_served: AtomicU64,
    accepted: AtomicU64,
    given_up: AtomicU64,
    open: AtomicI64,
    start_up_micros: AtomicU64,
}

impl Metrics {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            handshakes: [const { AtomicU64::new(0) }; _],
            lookups: [const { AtomicU64::new(0) }; _],
            requests: [const { AtomicU64::new(0) }; _],
            expired_served: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            open: AtomicI64::new(0),
            start_up_micros: AtomicU64::new(0),
        }
    }

    /// Registers the metrics of connections, lookups and requests.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let metrics = Arc::clone(self);
        sekisho_certs::metrics::register(registry, move |to| metrics.write(to));
    }

    /// Counts a connection's handshake, once, when its end is known.
    pub fn handshake(&self, result: HandshakeResult) {
        add(&self.handshakes[result as usize]);
    }

    /// Counts how a name was looked up, in a handshake or for a request.
    pub fn lookup(&self, result: LookupResult) {
        add(&self.lookups[result as usize]);
    }

    /// Counts a handshake that was served with an expired certificate, beside
    /// its own result.
    pub fn expired_served(&self) {
        add(&self.expired_served);
    }

    /// Counts an accepted connection.
    pub fn connection_opened(&self) {
        add(&self.accepted);
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts its end.
    pub fn connection_closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts connections that were closed to make room for others.
    pub fn connections_given_up(&self, count: usize) {
        self.given_up.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections_open(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts an answered request.
    pub fn request(&self, status: StatusCode) {
        // `StatusCode` holds 100 to 999; what is beyond 5xx counts as 5xx.
        let class = usize::from(status.as_u16() / 100).min(STATUS_CLASSES.len());
        add(&self.requests[class - 1]);
    }

    /// Notes that the server accepts connections, and how long that took from
    /// the start of the process on. From now on `/readyz` says so.
    pub fn listening(&self, start_up: Duration) {
        let micros = u64::try_from(start_up.as_micros()).unwrap_or(u64::MAX);
        self.start_up_micros.store(micros.max(1), Ordering::Release);
    }

    /// How long it took until connections were accepted; none before that.
    #[must_use]
    pub fn start_up(&self) -> Option<Duration> {
        let micros = self.start_up_micros.load(Ordering::Acquire);
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    fn write(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.counters(
            "handshakes",
            "Connections to TLS ports by the end of their handshake",
            "result",
            HandshakeResult::ALL.map(HandshakeResult::as_str),
            &self.handshakes,
        )?;
        to.counters(
            "lookups",
            "Names looked up by handshakes and requests, by outcome",
            "outcome",
            LookupResult::ALL.map(LookupResult::as_str),
            &self.lookups,
        )?;
        to.counters(
            "requests",
            "Answered requests by class of their status",
            "status",
            STATUS_CLASSES,
            &self.requests,
        )?;
        to.counter(
            "expired_served",
            "Handshakes served with an expired certificate",
            &read(&self.expired_served),
        )?;
        to.counter(
            "connections_accepted",
            "Accepted connections",
            &read(&self.accepted),
        )?;
        to.counter(
            "connections_given_up",
            "Connections that were closed to make room for those of other clients",
            &read(&self.given_up),
        )?;
        to.gauge(
            "connections_open",
            "Open connections",
            &self.connections_open(),
        )?;
        if let Some(start_up) = self.start_up() {
            to.gauge(
                "start_up_seconds",
                "From the start of the process until it accepted connections",
                &start_up.as_secs_f64(),
            )?;
        }
        Ok(())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
