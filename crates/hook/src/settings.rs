//! Bounds that a hook runs with.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of a hook. The configuration, which the embedder reads, has the defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the script in errors, such as its file's name.
    pub name: String,
    /// Source text of the script.
    pub source: String,
    /// Folders below which `tls:certificate` and `tls:certificate_key` read files.
    pub folders: Vec<PathBuf>,
    /// Policy for handshakes whose run failed.
    pub on_error: OnError,
    /// Bytes of memory of one Luau state; each worker has one.
    pub memory: usize,
    /// CPU time of one run.
    pub cpu: Duration,
    /// Limit of one run with all its waits.
    pub deadline: Duration,
    /// Runs that wait at a time, in the process.
    pub in_flight: usize,
    /// Runs that wait at a time for clients of one prefix.
    pub waiting_per_prefix: usize,
    /// Bytes of the region, which has what scripts made with `tls:cached`.
    pub region: usize,
    /// Bytes of the cache that scripts use with `cache:get` and `cache:set`.
    pub cache: usize,
    /// How long a connection keeps a choice that no `tls:cached` limits.
    pub keep: Duration,
    /// How long an absence of `tls:cached` is remembered.
    pub absent: Duration,
    /// How long a failure of `tls:cached` is remembered.
    pub failed: Duration,
}

/// Policy for handshakes whose run failed, was cut, or took too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Alert `internal_error`.
    #[default]
    Refuse,
    /// The ordinary lookup.
    Lookup,
    /// The default credential of the listening address.
    Default,
}
