//! Choices of a run of the script.

use sekisho_certs::HostName;
use tokio::time::Instant;

use crate::imports::Admission;

/// Choice of what a handshake gets.
#[derive(Clone, Debug)]
pub enum Choice<M> {
    /// The script chose nothing: the ordinary lookup goes on.
    Lookup,
    /// The ordinary lookup of this name: `tls:use`.
    Use(HostName),
    /// The default credential of the listening address: `tls:default`.
    Default,
    /// A refusal by an alert: `tls:refuse`.
    Refuse(u8),
    /// A certificate that the script gave, as [`make`](crate::Imports::make) returned it:
    /// `tls:certificate`.
    Made(M),
}

/// Answer of a hook. What `on_error` says is already applied.
#[derive(Debug)]
pub struct Answer<M> {
    /// The choice.
    pub choice: Choice<M>,
    /// Until when a connection keeps the choice for its own name. Then the hook is
    /// asked again.
    pub until: Instant,
    /// Origin of the choice.
    pub source: Source,
    /// Token of the client's prefix, where the run made a store call and the lookup
    /// of the choice says what it led to: with [`Choice::Lookup`], also that of `on_error`,
    /// and [`Choice::Use`]. The server spends it if it then finds nothing.
    pub admission: Option<Box<dyn Admission>>,
}

/// Origin of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The script, in this run.
    Script,
    /// The region: an entry of `tls:cached` that another run made.
    Region,
    /// The region: an entry past its limit, since the function of `tls:cached` failed.
    Stale,
    /// `on_error`: the run failed.
    Failed,
}
