//! What operators watch.

mod labels;
mod process;
mod upstream;

use std::array;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use sekisho_certs::metrics::{
    BusyCounter, Collector, Counter, Counters, DescriptorEncoder, Gauge, InGauge, Registry, gauge,
};

pub use labels::{
    HandshakeResult, LookupResult, ProxyHeaderResult, RequestRefusal, Resolution, UpstreamResult,
};
pub use process::register_process;
pub(crate) use upstream::UpstreamMetrics;

/// What connections count. Shared behind one `Arc` by all workers.
///
/// All label values are fixed words of the program; nothing that a client
/// sends becomes a label.
#[derive(Debug, Default)]
pub struct Metrics {
    handshakes: [BusyCounter; HandshakeResult::ALL.len()],
    lookups: [BusyCounter; LookupResult::ALL.len()],
    requests: [BusyCounter; STATUS_CLASSES.len()],
    proxy_headers: [Counter; ProxyHeaderResult::ALL.len()],
    refused: [Counter; RequestRefusal::ALL.len()],
    expired_served: Counter,
    accepted: BusyCounter,
    given_up: Counter,
    open: Gauge,
    parked: Gauge,
    certificate_waits: Gauge,
    body_bytes_held: Gauge,
    start_up: OnceLock<Duration>,
    upstream: UpstreamMetrics,
}

impl Metrics {
    /// Registers the metrics of connections, lookups and requests.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let handshakes = HandshakeResult::metric("result", &self.handshakes);
        let help = "Connections to TLS ports by the end of their handshake";
        registry.register("handshakes", help, handshakes);
        let lookups = LookupResult::metric("outcome", &self.lookups);
        let help = "Names looked up by handshakes and requests, by outcome";
        registry.register("lookups", help, lookups);
        let requests = Counters::<{ STATUS_CLASSES.len() }, _> {
            label: "status",
            each: array::from_fn(|class| (STATUS_CLASSES[class], self.requests[class].clone())),
        };
        let help = "Answered requests by class of their status";
        registry.register("requests", help, requests);
        let proxy_headers = ProxyHeaderResult::metric("result", &self.proxy_headers);
        let help = "Connections from [listen] proxy by their PROXY protocol header";
        registry.register("proxy_headers", help, proxy_headers);
        let refused = RequestRefusal::metric("reason", &self.refused);
        let help = "Requests refused by their site's rule";
        registry.register("requests_refused", help, refused);
        let help = "Handshakes served with an expired certificate";
        registry.register("expired_served", help, self.expired_served.clone());
        let help = "Accepted connections";
        registry.register("connections_accepted", help, self.accepted.clone());
        let help = "Connections that were closed at the limit of [server] connections";
        registry.register("connections_given_up", help, self.given_up.clone());
        registry.register("connections_open", "Open connections", self.open.clone());
        let help =
            "Open connections of HTTP/1.1 that were idle for 100 ms and hold no buffers of HTTP";
        registry.register("connections_parked", help, self.parked.clone());
        let help = "Handshakes and requests that wait for a certificate";
        registry.register("certificate_waits", help, self.certificate_waits.clone());
        let help = "Bytes of bodies and tunnels that came over HTTP/2, or for its clients, and were not taken";
        registry.register("body_bytes_held", help, self.body_bytes_held.clone());
        self.upstream.register(registry);
        registry.register_collector(Box::new(Arc::clone(self)));
    }

    /// Counts a connection's handshake, once, when its end is known.
    pub fn handshake(&self, result: HandshakeResult) {
        self.handshakes[result as usize].inc();
    }

    /// Counts how a name was looked up, in a handshake or for a request.
    pub fn lookup(&self, result: LookupResult) {
        self.lookups[result as usize].inc();
    }

    /// Counts the header of a connection from a proxy.
    pub fn proxy_header(&self, result: ProxyHeaderResult) {
        self.proxy_headers[result as usize].inc();
    }

    /// Counts a handshake that was served with an expired certificate, beside
    /// its own result.
    pub fn expired_served(&self) {
        self.expired_served.inc();
    }

    /// Counts a lookup that waits for a certificate, until it is dropped.
    #[must_use]
    pub fn waits_for_certificate(&self) -> InGauge {
        InGauge::new(&self.certificate_waits)
    }

    /// Lookups that wait for a certificate now.
    #[must_use]
    pub fn certificate_waits(&self) -> u64 {
        self.certificate_waits.get()
    }

    /// Counts an accepted connection, which is open until the count is dropped.
    #[must_use]
    pub fn connection_opened(&self) -> InGauge {
        self.accepted.inc();
        InGauge::new(&self.open)
    }

    /// Counts a connection that was closed at the limit of connections.
    pub fn connection_given_up(&self) {
        self.given_up.inc();
    }

    /// Returns the count of bytes of bodies that connections of HTTP/2 hold.
    pub(crate) fn body_bytes_held(&self) -> &Gauge {
        &self.body_bytes_held
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections_open(&self) -> u64 {
        self.open.get()
    }

    /// Counts a connection that waits without buffers, until the count is dropped.
    pub(crate) fn parked(&self) -> InGauge {
        InGauge::new(&self.parked)
    }

    /// Open connections of HTTP/1.1 that wait without buffers now.
    #[must_use]
    pub fn connections_parked(&self) -> u64 {
        self.parked.get()
    }

    /// Counts an answered request.
    pub fn request(&self, status: StatusCode) {
        // `StatusCode` holds 100 to 999; what is beyond 5xx counts as 5xx.
        let class = usize::from(status.as_u16() / 100).min(STATUS_CLASSES.len());
        self.requests[class - 1].inc();
    }

    /// Returns the metrics of upstream servers.
    pub(crate) fn upstream(&self) -> &UpstreamMetrics {
        &self.upstream
    }

    /// Counts a request that was refused, beside its status.
    pub fn request_refused(&self, reason: RequestRefusal) {
        self.refused[reason as usize].inc();
    }

    /// Notes that the server accepts connections, and how long that took from
    /// the start of the process on. From now on `/readyz` says so.
    pub fn listening(&self, start_up: Duration) {
        // A server begins to listen only once.
        let _ = self.start_up.set(start_up);
    }

    /// How long it took until connections were accepted; none before that.
    #[must_use]
    pub fn start_up(&self) -> Option<Duration> {
        self.start_up.get().copied()
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(start_up) = self.start_up() else {
            return Ok(());
        };
        let help = "From the start of the process until it accepted connections";
        let seconds = start_up.as_secs_f64();
        gauge(&mut encoder, "start_up_seconds", help, &seconds)
    }
}

const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
