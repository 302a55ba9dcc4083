//! How stores are opened and asked.

use std::path::PathBuf;
use std::time::Duration;

use sekisho_certs::Secret;
use sekisho_certs::metrics::Counter;

/// Handling of a catalog that is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The catalog must be there: a server would otherwise start empty after a typo.
    #[default]
    Existing,
    /// Made if it is missing; an empty one is completed.
    Create,
}

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Handling of a catalog that is missing.
    pub mode: Mode,
    /// The bearer token for an endpoint (RFC 6750).
    pub token: Option<Secret>,
    /// PEM certificates that alone are believed of an endpoint; else, those
    /// that the system trusts.
    pub ca: Option<PathBuf>,
    /// How long connecting to PostgreSQL and a read there may take; by default as
    /// long as a command waits.
    pub timeout: Option<Duration>,
    /// Counts connections to PostgreSQL that were given up since a lookup hung on them.
    pub retired: Counter,
}

/// For a store that answers within milliseconds: a handshake's own deadline is
/// not much longer than a call's.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(2);
