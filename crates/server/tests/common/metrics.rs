//! Metrics of a running server, as a scrape shows them.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::metrics::Registry;
use sekisho_server::admin::{Admin, Listener, Sources};
use tokio::net::TcpListener;

use super::{Running, raw};

/// Returns the value of a metric in a scrape.
pub async fn figure(running: &Running, name: &str) -> u64 {
    let mut registry = Registry::default();
    running
        .metrics
        .register(registry.sub_registry_with_prefix("sekisho"));
    let lookup = Arc::clone(&running.lookup);
    let sources = Sources {
        metrics: Arc::clone(&running.metrics),
        lookup_stats: Box::new(move || lookup.stats()),
        draining: Box::new(|| false),
        registry,
        sites_digest: Box::default(),
        status: Box::new(|_| unreachable!("nobody asks")),
        control: Box::new(|_| unreachable!("nobody asks")),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(
        Admin::new(sources, None).serve(Listener::from(listener), std::future::pending()),
    );
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = String::from_utf8(raw(address, request).await).unwrap();
    serving.abort();
    let line = answer.lines().find_map(|line| line.strip_prefix(name));
    line.expect("a figure").trim().parse().unwrap()
}

/// Waits until the outcome was counted `times`: the client sees the end before
/// the count.
pub async fn counted(running: &Running, outcome: &str, times: u64) {
    let name = format!("sekisho_handshakes_total{{result=\"{outcome}\"}}");
    let mut seen = 0;
    for _ in 0..200 {
        seen = figure(running, &name).await;
        if seen == times {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{outcome}: {seen} instead of {times}");
}
