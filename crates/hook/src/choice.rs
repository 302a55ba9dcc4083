//! Choices of a run of the script.

pub use sekisho_certs::hook::{Charge, Choice};
use tokio::time::Instant;

/// Answer of a hook. What `on_error` says is already applied.
pub struct Answer<M> {
    /// The choice.
    pub choice: Choice<M>,
    /// Until when a connection keeps the choice for its own name. Then the hook is
    /// asked again.
    pub until: Instant,
    /// Origin of the choice.
    pub source: Source,
    /// Charges the client's prefix, where the run made a store call and the lookup
    /// of the choice says what it led to: with [`Choice::Lookup`], also that of `on_error`,
    /// and [`Choice::Use`]. The server calls it if it then finds nothing.
    pub charge: Option<Charge>,
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
