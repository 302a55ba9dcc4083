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
        let (to, process) = (&mut encoder, Process::read());
        if let Some(bytes) = process.resident {
            gauge(to, "resident_memory_bytes", "Memory in use", &bytes)?;
        }
        if let Some(open) = process.descriptors {
            gauge(to, "open_fds", "Open descriptors", &open)?;
        }
        if let Some(most) = process.most_descriptors {
            gauge(to, "max_fds", "Descriptors that may be open", &most)?;
        }
        let help = "Processor time, user and system";
        to.encode_descriptor("cpu_seconds", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&process.cpu, None)
    }
}

/// A reading. What can't be read is left out.
#[derive(Debug, Default)]
struct Process {
    /// Bytes in memory.
    resident: Option<u64>,
    /// Processor time of all threads, in user and system mode, seconds.
    cpu: f64,
    /// Open descriptors.
    descriptors: Option<u64>,
    /// How many may be open.
    most_descriptors: Option<u64>,
}

impl Process {
    fn read() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            resident: resident(),
            #[expect(clippy::cast_precision_loss, reason = "52 bits hold 140 years")]
            cpu: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            // The listing itself holds one.
            descriptors: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|entries| (entries.count() as u64).saturating_sub(1)),
            most_descriptors: getrlimit(Resource::Nofile).current,
        }
    }
}

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
        let before = Process::read();
        let _file = fs::File::open("/dev/null").unwrap();
        let after = Process::read();
        let resident = after.resident.unwrap();
        assert!((1 << 20..1 << 34).contains(&resident), "{resident}");
        assert!(after.cpu > 0.0 && after.cpu >= before.cpu);
        assert!(after.descriptors.unwrap() >= 4, "{after:?}");
        assert!(after.descriptors <= after.most_descriptors);
    }
}
