//! Tests the samples of a scrape, read by the grammar of OpenMetrics.

use super::*;
use crate::observe::metrics::{HandshakeResult, LookupResult};

#[tokio::test]
async fn a_scrape_has_what_was_counted() {
    let fixture = Fixture::start(None).await;
    let metrics = &fixture.metrics;
    for (n, result) in HandshakeResult::ALL.into_iter().enumerate() {
        for _ in 0..=n {
            metrics.handshake(result);
        }
    }
    for (n, result) in LookupResult::ALL.into_iter().enumerate() {
        for _ in 0..=n {
            metrics.lookup(result);
        }
    }
    for status in [100, 200, 204, 308, 404, 421, 500, 999] {
        metrics.request(StatusCode::from_u16(status).unwrap());
    }
    metrics.expired_served();
    let mut open: Vec<_> = (0..3).map(|_| metrics.connection_opened()).collect();
    open.pop();
    fixture.look_up("a.example").await;
    fixture.store.fail(true);
    fixture.look_up("b.example").await;

    let got = fixture.scrape().await;
    for (n, result) in HandshakeResult::ALL.into_iter().enumerate() {
        let name = format!("sekisho_handshakes_total{{result=\"{}\"}}", result.as_str());
        assert_eq!(got[&name], (n + 1) as f64, "{name}");
    }
    for (n, result) in LookupResult::ALL.into_iter().enumerate() {
        let name = format!("sekisho_lookups_total{{outcome=\"{}\"}}", result.as_str());
        assert_eq!(got[&name], (n + 1) as f64, "{name}");
    }
    for (name, value) in [
        ("sekisho_requests_total{status=\"1xx\"}", 1.0),
        ("sekisho_requests_total{status=\"2xx\"}", 2.0),
        ("sekisho_requests_total{status=\"3xx\"}", 1.0),
        ("sekisho_requests_total{status=\"4xx\"}", 2.0),
        ("sekisho_requests_total{status=\"5xx\"}", 2.0),
        ("sekisho_expired_served_total", 1.0),
        ("sekisho_connections_accepted_total", 3.0),
        ("sekisho_connections_open", 2.0),
        ("sekisho_cache_records", 0.0),
        ("sekisho_cache_notes", 1.0),
        ("sekisho_loads_total{outcome=\"found\"}", 0.0),
        ("sekisho_loads_total{outcome=\"absent\"}", 1.0),
        ("sekisho_loads_total{outcome=\"failed\"}", 1.0),
        ("sekisho_loads_in_flight", 0.0),
        ("sekisho_store_errors_total", 1.0),
        ("sekisho_store_available", 0.0),
        ("sekisho_store_call_seconds_count", 2.0),
        ("sekisho_store_call_seconds_bucket{le=\"+Inf\"}", 2.0),
        ("sekisho_log_position", 0.0),
        ("sekisho_feed_state{state=\"none\"}", 1.0),
        ("sekisho_feed_state{state=\"healthy\"}", 0.0),
        ("sekisho_feed_state{state=\"broken\"}", 0.0),
        ("sekisho_file_cache_entries", 0.0),
        ("sekisho_file_cache_hits_total", 0.0),
    ] {
        assert_eq!(got.get(name), Some(&value), "{name}");
    }
    for name in [
        "sekisho_cache_bytes",
        "sekisho_cache_capacity_bytes",
        "sekisho_file_cache_capacity_bytes",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ] {
        assert!(got[name] > 0.0, "{name}");
    }
    assert!(!got.contains_key("sekisho_start_up_seconds"));
    metrics.listening(Duration::from_millis(12));
    assert_eq!(fixture.scrape().await["sekisho_start_up_seconds"], 0.012);
}

/// Reads OpenMetrics text by its grammar: each sample belongs to the family
/// announced before it, and its suffix to that family's type.
pub(super) fn samples(text: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let (mut family, mut kind) = ("", "");
    let body = text.strip_suffix("# EOF\n").expect("ends with EOF");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').unwrap();
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let bare = name.split('{').next().unwrap();
        let suffix = bare
            .strip_prefix(family)
            .unwrap_or_else(|| panic!("{line} in {family}"));
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_sum", "_count", "_bucket"],
            other => panic!("type {other}"),
        };
        assert!(suffixes.contains(&suffix), "{line}");
        let value = value.parse().unwrap();
        assert!(
            samples.insert(name.to_owned(), value).is_none(),
            "{name} twice"
        );
    }
    samples
}
