//! What operators watch: counters resolved once, written without a look-up.

mod labels;

use std::sync::atomic::{AtomicI64, Ordering};

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

pub use labels::{HandshakeResult, LookupResult};

/// Everything that connections count. Shared behind one `Arc` by all workers.
///
/// All label values are fixed words of the program; nothing that a client
/// sends becomes a label.
#[derive(Debug)]
pub struct Metrics {
    handshakes: [Counter; HandshakeResult::ALL.len()],
    lookups: [Counter; LookupResult::ALL.len()],
    requests: [Counter; STATUS_CLASSES.len()],
    expired_served: Counter,
    accepted: Counter,
    open: AtomicI64,
    families: Families,
}

impl Metrics {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let families = Families::default();
        let resolve =
            |family: &Family<_, Counter>, name, value| family.get_or_create_owned(&[(name, value)]);
        Self {
            handshakes: HandshakeResult::ALL
                .map(|result| resolve(&families.handshakes, "result", result.as_str())),
            lookups: LookupResult::ALL
                .map(|result| resolve(&families.lookups, "outcome", result.as_str())),
            requests: STATUS_CLASSES.map(|class| resolve(&families.requests, "status", class)),
            expired_served: Counter::default(),
            accepted: Counter::default(),
            open: AtomicI64::new(0),
            families,
        }
    }

    /// Counts a connection's handshake, once, when its end is known.
    pub fn handshake(&self, result: HandshakeResult) {
        self.handshakes[result as usize].inc();
    }

    /// Counts how a name was looked up, in a handshake or for a request.
    pub fn lookup(&self, result: LookupResult) {
        self.lookups[result as usize].inc();
    }

    /// Counts a handshake that was served with an expired certificate, beside
    /// its own result.
    pub fn expired_served(&self) {
        self.expired_served.inc();
    }

    /// Counts an accepted connection.
    pub fn connection_opened(&self) {
        self.accepted.inc();
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts its end.
    pub fn connection_closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
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
        self.requests[class - 1].inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

type Labels = [(&'static str, &'static str); 1];

#[derive(Debug, Default)]
struct Families {
    handshakes: Family<Labels, Counter>,
    lookups: Family<Labels, Counter>,
    requests: Family<Labels, Counter>,
}

const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
