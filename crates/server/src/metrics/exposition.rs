//! All figures as OpenMetrics text.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use sekisho_certs::lookup::CALL_BOUNDS;
use sekisho_certs::{FeedState, LookupStats};
use sekisho_stores::disk_cache::Stats;
use sekisho_stores::redis_cache::{Counts, Filled, Read};

use super::process::Process;
use super::writer::{Writer, read};
use super::{HandshakeResult, LookupResult, Metrics, STATUS_CLASSES};
use crate::admin::Sources;
use crate::site::{CacheStats, Refused};

/// Reads all figures when it is asked, not before.
#[derive(Debug)]
pub(crate) struct Exposition {
    own: Registry,
    process: Registry,
}

impl Exposition {
    pub(crate) fn new(sources: Arc<Sources>) -> Self {
        let mut own = Registry::with_prefix("sekisho");
        own.register_collector(Box::new(Own(sources)));
        let mut process = Registry::with_prefix("process");
        process.register_collector(Box::new(OfProcess {
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
        }));
        Self { own, process }
    }

    /// The text of one scrape.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        encode_registry(&mut text, &self.own)
            .and_then(|()| encode_registry(&mut text, &self.process))
            .and_then(|()| encode_eof(&mut text))
            .expect("a String takes all text");
        text
    }
}

#[derive(Debug)]
struct Own(Arc<Sources>);

impl Collector for Own {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        connections(&mut to, &self.0.metrics)?;
        let stats = (self.0.lookup)();
        cache(&mut to, &stats)?;
        store(&mut to, &stats)?;
        if let Some(counts) = &self.0.redis_cache {
            redis_cache(&mut to, counts)?;
        }
        feed(&mut to, &stats)?;
        if let Some(stats) = &self.0.disk_cache {
            disk_cache(&mut to, stats())?;
        }
        files(&mut to, self.0.responder.files())?;
        refused(&mut to, self.0.responder.refused())?;
        to.counter(
            "log_lines_dropped",
            "Log lines that were dropped, since they were not read fast enough",
            &(self.0.log_dropped)(),
        )?;
        to.one_of(
            "build_info",
            "The version that runs",
            "version",
            &[(env!("CARGO_PKG_VERSION"), 1)],
        )
    }
}

#[derive(Debug)]
struct OfProcess {
    started: f64,
}

impl Collector for OfProcess {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        let process = Process::read();
        if let Some(bytes) = process.resident {
            to.gauge("resident_memory_bytes", "Memory in use", &bytes)?;
        }
        to.counter(
            "cpu_seconds",
            "Processor time, user and system",
            &process.cpu,
        )?;
        if let Some(open) = process.descriptors {
            to.gauge("open_fds", "Open descriptors", &open)?;
        }
        if let Some(most) = process.most_descriptors {
            to.gauge("max_fds", "Descriptors that may be open", &most)?;
        }
        let help = "Start of the process, since the Unix epoch";
        to.gauge("start_time_seconds", help, &self.started)
    }
}

fn connections(to: &mut Writer<'_>, metrics: &Metrics) -> fmt::Result {
    to.counters(
        "handshakes",
        "Connections to TLS ports by the end of their handshake",
        "result",
        HandshakeResult::ALL.map(HandshakeResult::as_str),
        &metrics.handshakes,
    )?;
    to.counters(
        "lookups",
        "Names looked up by handshakes and requests, by outcome",
        "outcome",
        LookupResult::ALL.map(LookupResult::as_str),
        &metrics.lookups,
    )?;
    to.counters(
        "requests",
        "Answered requests by class of their status",
        "status",
        STATUS_CLASSES,
        &metrics.requests,
    )?;
    to.counter(
        "expired_served",
        "Handshakes served with an expired certificate",
        &read(&metrics.expired_served),
    )?;
    to.counter(
        "connections_accepted",
        "Accepted connections",
        &read(&metrics.accepted),
    )?;
    to.counter(
        "connections_given_up",
        "Connections that were closed to make room for those of other clients",
        &read(&metrics.given_up),
    )?;
    to.gauge(
        "connections_open",
        "Open connections",
        &metrics.connections_open(),
    )?;
    if let Some(start_up) = metrics.start_up() {
        to.gauge(
            "start_up_seconds",
            "From the start of the process until it accepted connections",
            &start_up.as_secs_f64(),
        )?;
    }
    Ok(())
}

fn cache(to: &mut Writer<'_>, stats: &LookupStats) -> fmt::Result {
    let usage = &stats.usage;
    to.gauge("cache_bytes", "Bytes of cached hosts", &usage.bytes)?;
    to.gauge(
        "cache_capacity_bytes",
        "Bytes that cached hosts may take",
        &usage.capacity,
    )?;
    to.gauge("cache_records", "Cached host records", &usage.records)?;
    to.gauge(
        "cache_notes",
        "Cached absences and aliases below wildcards",
        &usage.notes,
    )?;
    to.gauge(
        "cache_credentials",
        "Credentials in memory",
        &stats.credentials,
    )?;
    let counts = &stats.counts;
    to.counter(
        "cache_hits",
        "Look-ups answered by a cached record",
        &counts.hits(),
    )?;
    to.counter(
        "cache_hits_absent",
        "Look-ups answered by a cached absence",
        &counts.hits_absent(),
    )?;
    to.counter(
        "cache_joined",
        "Look-ups that joined a load in flight",
        &counts.joined(),
    )
}

fn store(to: &mut Writer<'_>, stats: &LookupStats) -> fmt::Result {
    let counts = &stats.counts;
    to.gauge("loads_in_flight", "Loads in flight", &stats.in_flight)?;
    let loads = [
        ("found", counts.found()),
        ("absent", counts.absent()),
        ("failed", counts.failed()),
    ];
    to.family("loads", "Loads by outcome", "outcome", &loads)?;
    to.counter(
        "stale_served",
        "Loads that failed and served what was remembered (within found)",
        &counts.stale(),
    )?;
    to.counter(
        "store_errors",
        "Store calls that gave an error",
        &counts.calls_failed(),
    )?;
    to.gauge(
        "store_available",
        "Whether the last store call was answered (1 before the first)",
        &u64::from(!counts.unavailable()),
    )?;
    let bounds = CALL_BOUNDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(counts.calls()).collect();
    to.histogram(
        "store_call_seconds",
        "Time of store calls",
        counts.call_micros(),
        &buckets,
    )
}

fn redis_cache(to: &mut Writer<'_>, counts: &Counts) -> fmt::Result {
    let reads = Read::ALL.map(|read| (read.as_str(), counts.reads(read)));
    let help = "Lookups that came to Redis before the catalog, by outcome";
    to.family("redis_cache_reads", help, "outcome", &reads)?;
    let fills = Filled::ALL.map(|filled| (filled.as_str(), counts.fills(filled)));
    let help = "Answers of the catalog that were offered to Redis, by outcome";
    to.family("redis_cache_fills", help, "outcome", &fills)?;
    to.counter(
        "redis_cache_unusable_values",
        "Values in Redis that could not be used (within miss, or not opened)",
        &counts.unusable_values(),
    )?;
    to.gauge(
        "redis_cache_in_use",
        "Whether Redis before the catalog is asked (0: passed over)",
        &u64::from(counts.is_usable()),
    )
}

fn feed(to: &mut Writer<'_>, stats: &LookupStats) -> fmt::Result {
    to.gauge(
        "log_position",
        "Number of the last applied change",
        &stats.position,
    )?;
    let is = |state| u64::from(stats.feed == state);
    let states = [
        ("none", is(FeedState::None)),
        ("healthy", is(FeedState::Healthy)),
        ("broken", is(FeedState::Broken)),
    ];
    to.one_of("feed_state", "State of the change feed", "state", &states)
}

fn disk_cache(to: &mut Writer<'_>, stats: Stats) -> fmt::Result {
    to.gauge(
        "disk_cache_copies",
        "Hosts with a copy on disk",
        &stats.copies,
    )?;
    to.gauge("disk_cache_bytes", "Bytes of copies on disk", &stats.bytes)?;
    to.gauge(
        "disk_cache_capacity_bytes",
        "Bytes that copies may take on disk",
        &stats.capacity,
    )?;
    to.counter(
        "disk_cache_answers",
        "Store calls that failed and were answered by a copy on disk",
        &stats.answers,
    )?;
    to.counter("disk_cache_kept", "Answers copied to disk", &stats.kept)?;
    to.counter(
        "disk_cache_dropped",
        "Answers that were not copied to disk",
        &stats.dropped,
    )
}

fn files(to: &mut Writer<'_>, stats: CacheStats) -> fmt::Result {
    to.gauge("file_cache_bytes", "Bytes of cached files", &stats.bytes)?;
    to.gauge(
        "file_cache_capacity_bytes",
        "Bytes that cached files may take",
        &stats.capacity,
    )?;
    to.gauge("file_cache_entries", "Cached paths", &stats.entries)?;
    to.counter(
        "file_cache_hits",
        "Requests for files answered from memory",
        &stats.hits,
    )?;
    to.counter(
        "file_cache_misses",
        "Requests for files that waited for the disk",
        &stats.misses,
    )
}

fn refused(to: &mut Writer<'_>, refused: Refused) -> fmt::Result {
    let reasons = [
        ("outside_allow", refused.outside_allow),
        ("own_file", refused.own_files),
    ];
    let help = "Roots and files that sites were refused to serve, answered with 503";
    to.family("sites_refused", help, "reason", &reasons)
}
