//! What the system says of this process.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use sekisho_certs::metrics::{Collector, ConstGauge, DescriptorEncoder, Registry, gauge};

/// Registers the metrics of the process that runs this.
pub fn register_process(registry: &mut Registry) {
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64();
    let help = "Start of the process, since the Unix epoch";
    registry.register("start_time_seconds", help, ConstGauge::new(started));
    registry.register_collector(Box::new(ProcessCollector));
}

#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        if let Some(bytes) = resident() {
            gauge(to, "resident_memory_bytes", "Memory in use", &bytes)?;
        }
        if let Some(open) = descriptors() {
            gauge(to, "open_fds", "Open descriptors", &open)?;
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            gauge(to, "max_fds", "Descriptors that may be open", &most)?;
        }
        let help = "Processor time, user and system";
        to.encode_descriptor("cpu_seconds", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&cpu_seconds(), None)
    }
}

/// Returns the processor time of all threads, in user and system mode.
#[expect(clippy::cast_precision_loss, reason = "52 bits hold 140 years")]
fn cpu_seconds() -> f64 {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

/// Returns the number of open descriptors, if it can be read.
fn descriptors() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // The listing itself holds one.
    Some((entries.count() as u64).saturating_sub(1))
}

/// Returns the bytes in memory, if they can be read.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_process() {
        let before = cpu_seconds();
        let _file = fs::File::open("/dev/null").unwrap();
        let resident = resident().unwrap();
        assert!((1 << 20..1 << 34).contains(&resident), "{resident}");
        let after = cpu_seconds();
        assert!(after > 0.0 && after >= before);
        let open = descriptors();
        assert!(open >= Some(4), "{open:?}");
        assert!(open <= getrlimit(Resource::Nofile).current);
    }
}
