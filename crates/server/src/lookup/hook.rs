//! Hook of the handshake: the operator's code chooses what a client gets.
//!
//! The server asks the hook after the ClientHello and before the lookup, in resumed
//! handshakes too. Clients that validate a challenge (RFC 8737) never reach the hook.
//! A connection keeps the choice for its own name; its requests for other names ask
//! the hook again.
//!
//! The server's side is small, and knows nothing of scripts:
//!
//! ```text
//!  crates/server/src
//!  ─────────────────
//!  hook.rs        the trait that the binary implements: a question, an answer
//!    ├─ hook/resolve.rs   from the answer to a record; charges what leads to nothing
//!    ├─ hook/kept.rs      what a connection keeps of the hook and its choices
//!    ├─ hook/clients.rs   what a script may cost a client's prefix, and its lookups, which
//!    │                      end with step 3
//!    └─ virtual_host/made.rs  certificates that a script gave, each with a pattern of
//!                               its own: tickets are bound to it
//! ```

mod clients;
mod kept;
mod question;
mod resolve;

use std::sync::Arc;

use sekisho_certs::store::BoxFuture;
use sekisho_certs::{Served, hook};
use tokio::time::Instant;

pub use clients::Clients;
pub(crate) use kept::{Hooked, Kept};
pub use question::Question;
pub(crate) use question::facts;
pub(crate) use resolve::{Chooser, Unserved, is_failure};

pub use crate::limits::budget::AbsenceToken as Token;
use crate::lookup::virtual_host::VirtualHost;
pub use sekisho_certs::hook::{Charge, ClientFacts};

/// Chooses what clients get, before the lookup.
///
/// - Called once in each handshake whose server name can be a host, and for requests
///   that need a new choice. Callable concurrently, from all workers.
/// - A call never blocks the thread that polls it.
/// - The server drops the future at the question's deadline, and where the connection
///   ends. What other clients wait for goes on elsewhere.
/// - A failure is answered as the operator's policy says, and marked in
///   [`Answer::failed`]. A failure is never answered as an absence.
pub trait Hook: Send + Sync + 'static {
    /// Answers a question.
    fn answer<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer>;
}

/// Answer of a hook.
pub struct Answer {
    /// The choice for the client.
    pub choice: Choice,
    /// Until when the choice holds for the requests of its connection, while the record
    /// that it leads to is unchanged. What a failed hook chose holds for 10 s at most.
    pub until: Instant,
    /// True if the hook failed, and its policy for failures chose. Requests for a
    /// connection's own name are served on instead, as the hook chose before.
    pub failed: bool,
    /// Charges the client for the calls that led to the choice, none if there were
    /// none. The server calls it if the choice leads to nothing; dropping it charges
    /// nothing.
    pub charge: Option<Charge>,
}

/// Choice of a hook. What it made is of [`Publisher::make`](crate::Publisher::make).
pub type Choice = hook::Choice<Arc<Served<VirtualHost>>>;
