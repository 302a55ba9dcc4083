//! Settings of the process: allocator, kernel limits, privileges.

mod activation;
#[cfg(feature = "jemalloc")]
mod allocator;
mod code;
mod descriptors;
mod held_signals;
mod memory;
mod privileges;

use std::path::Path;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use sekisho_certs::metrics::{Family, Gauge, Registry};
use sekisho_server::{MAX_OPEN_FILES, unused_connections};

use crate::config::{Config, HELD_BODIES};

pub(crate) use activation::activated;
pub(crate) use code::give_up_code_of_the_start;
pub(crate) use descriptors::keep_out_of_programs;
pub(crate) use held_signals::{SignalThread, execute_self, release_signals};
pub(crate) use privileges::{check_user, give_up_binding, give_up_privileges, pass_on_binding};

/// Keeps private keys out of core dumps and out of reach of other processes
/// of the same user. Failure is not fatal: the kernel of a container may
/// forbid it.
pub(crate) fn keep_memory_private() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::debug!(%error, "core dumps stay possible");
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::debug!(%error, "the process stays dumpable");
    }
}

/// Raises the limit of open files to the hard limit. Returns the limit; None if
/// there is none.
pub(crate) fn open_all_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files can't be raised: connections may be refused");
            limit.current
        }
    }
}

/// Warns if the configuration needs more open files than `allowed`, the result
/// of [`open_all_files`]. Returns how many connections to upstreams may be open.
pub(crate) fn check_files(allowed: Option<u64>, config: &Config) -> usize {
    let (connections, workers) = (config.limits.connections, config.limits.workers);
    let addresses = config.listen.https.len() + config.listen.http.len();
    // Each listening socket has a copy, for a hand-over.
    let others = workers * (2 * addresses + PER_WORKER) + MAX_OPEN_FILES + OTHER_FILES;
    let needed = (connections + others + unused_connections(workers)) as u64;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < needed) {
        tracing::warn!(
            allowed,
            needed,
            connections,
            "fewer files may be open than [server] connections needs: at that limit connections wait \
             and files can't be read; raise the hard limit (LimitNOFILE= in a systemd unit, \
             `ulimit -n` in a shell) or lower connections"
        );
    }
    let allowed = usize::try_from(allowed.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let free = allowed.saturating_sub(others);
    // Where too few files may be open, clients' connections leave upstreams some.
    let least = free / 4;
    let left = free.saturating_sub(connections);
    left.max(least).min(MOST_UPSTREAMS)
}

/// Registers the metric of the version that runs.
pub(crate) fn register_build(registry: &mut Registry) {
    let versions = Family::<_, Gauge>::default();
    versions
        .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
        .set(1);
    registry.register("build_info", "The version that runs", versions);
}

/// Warns if `[server] connections` can need more memory than is available.
pub(crate) fn check_memory(config: &Config) {
    let connections = config.limits.connections;
    let needed = connections * PER_CONNECTION + HELD_BODIES + config.memory();
    let needed = needed as u64;
    let available = memory::available(Path::new("/"));
    if let Some(available) = available.filter(|available| *available < needed) {
        tracing::warn!(
            available_mib = available >> 20,
            needed_mib = needed >> 20,
            connections,
            "[server] connections can need more memory than there is, and the kernel would end the \
             server: lower connections, or allow it more memory (MemoryMax= in a systemd unit)"
        );
    }
}

/// Bytes of a connection without those of [`HELD_BODIES`]. Idle, it takes 6 KiB of the
/// process (docs/performance.md) and the kernel's memory for its socket; not all are idle.
const PER_CONNECTION: usize = 16 << 10;
/// Descriptors of a worker: those with which its runtime polls and wakes
/// itself, its connections to the store and the Redis cache, and the sockets of FastCGI
/// servers that it has just judged.
const PER_WORKER: usize = 5 + 256;
/// Most connections to upstreams. Each takes some 20 KB, without the bytes of bodies.
const MOST_UPSTREAMS: usize = 2 << 16;
/// Other descriptors: the store's files and threads, the admin listener with
/// its connections, files that are being opened, and three pipes of each CGI program.
const OTHER_FILES: usize = 128 + 3 * 64;
