//! Names of the figures.

pub(crate) const CPU: &str = "server CPU µs";
/// Cycles of user code and kernel together.
pub(crate) const CYCLES: &str = "cycles";
pub(crate) const USER: &str = "user instructions";
pub(crate) const KERNEL: &str = "kernel instructions";
pub(crate) const REDIS_CPU: &str = "Redis CPU µs";
pub(crate) const POSTGRES_CPU: &str = "PostgreSQL CPU µs";
pub(crate) const ENDPOINT_CPU: &str = "endpoint CPU µs";
pub(crate) const IN_FLIGHT: &str = "store calls in flight";
pub(crate) const LOST: &str = "% fewer while stuck";
pub(crate) const STUCK_RATE: &str = "per second, stuck";
pub(crate) const STUCK_P50: &str = "handshake p50 µs, stuck";
pub(crate) const STUCK_P99: &str = "handshake p99 µs, stuck";
pub(crate) const WELL_RATE: &str = "per second, well";
pub(crate) const WELL_P50: &str = "handshake p50 µs, well";
pub(crate) const WELL_P99: &str = "handshake p99 µs, well";
pub(crate) const WELL_UNCACHED: &str = "% of uncached answered, well";
pub(crate) const STUCK_UNCACHED: &str = "% of uncached answered, stuck";
pub(crate) const CALLS: &str = "store calls";
pub(crate) const JOINED: &str = "joined the load";
pub(crate) const MGETS: &str = "MGETs that Redis counted";
pub(crate) const SEEN_P50: &str = "p50 ms, last server";
pub(crate) const SEEN_P99: &str = "p99 ms, last server";
pub(crate) const SEEN_MAX: &str = "max ms, last server";
pub(crate) const SEEN_EACH: [[&str; 3]; 3] = [
    ["p50 ms, server 1", "p99 ms, server 1", "max ms, server 1"],
    ["p50 ms, server 2", "p99 ms, server 2", "max ms, server 2"],
    ["p50 ms, server 3", "p99 ms, server 3", "max ms, server 3"],
];
pub(crate) const SENT_P99: &str = "p99 ms from before the write";
pub(crate) const WRITE_P50: &str = "write p50 ms";
pub(crate) const BUSY: &str = "server core %";
pub(crate) const CLIENT_BUSY: &str = "client core %";
pub(crate) const RATE: &str = "per second";
pub(crate) const P50: &str = "p50 µs";
pub(crate) const P99: &str = "p99 µs";
pub(crate) const P999: &str = "p99.9 µs";
pub(crate) const LAG_P50: &str = "client's own lag p50 µs";
pub(crate) const LAG_P99: &str = "client's own lag p99 µs";
pub(crate) const DUE: &str = "due per second";
pub(crate) const SATURATED: &str = "first case's core % when saturated";
/// Bytes of a text as clients get it.
pub(crate) const ANSWER: &str = "bytes of an answer";
pub(crate) const RESUMED: &str = "resumed %";
pub(crate) const EACH: &str = "KiB each";
pub(crate) const RSS: &str = "RSS MiB";
pub(crate) const PSS: &str = "PSS MiB";
pub(crate) const VIRTUAL: &str = "virtual MiB";
pub(crate) const START: &str = "start ms";
pub(crate) const START_CPU: &str = "start CPU ms";
pub(crate) const LINES: &str = "configuration lines";
pub(crate) const BYTES: &str = "configuration bytes";
pub(crate) const RELOAD: &str = "reload ms";
pub(crate) const FIRST_PAGE: &str = "first page ms";
pub(crate) const PSS_BEFORE: &str = "PSS MiB before";
pub(crate) const PSS_PEAK: &str = "PSS MiB at most";
pub(crate) const SIEGE: &str = "siege s";
pub(crate) const KERNEL_TIME: &str = "% of CPU time in the kernel";
pub(crate) const COPIED: &str = "% of kernel time that copies page tables";
pub(crate) const DROPPED: &str = "% of kernel time that drops page tables";
pub(crate) const FAULTS: &str = "% of kernel time in page faults";
pub(crate) const CREATED: &str = "creation of a process µs";
pub(crate) const EXECUTED: &str = "execve µs";
pub(crate) const CORE: &str = "core %, all processes";
pub(crate) const MOST_RATE: &str = "per second, saturated";
pub(crate) const MOST_BUSY: &str = "server core %, saturated";
pub(crate) const STORE_BUSY: &str = "store core %";
